"""Comparisons of pre-training runs at equal cost."""
