"""Parallel processes, their progress and locks, and atomic files."""
