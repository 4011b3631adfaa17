"""Downstream tasks: build rows from text, and predictions from head outputs.

Read `base` first, then `rows`, then the module of one kind.
"""
