"""A small web page to try a model on, for one user on one machine."""
