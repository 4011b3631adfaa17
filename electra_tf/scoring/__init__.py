"""Scores of sentences, and benchmarks that need them."""
