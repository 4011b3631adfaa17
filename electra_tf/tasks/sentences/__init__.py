"""Tasks with one answer for a text or a pair of texts."""
