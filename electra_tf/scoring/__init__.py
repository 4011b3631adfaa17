"""Sentence scores, and the benchmark BLiMP."""
