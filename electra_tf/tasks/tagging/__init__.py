"""Tasks with one tag for every word."""
