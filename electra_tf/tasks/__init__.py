"""Downstream tasks: files to examples, rows, predictions and scores.

Read `task` first, then `catalog`.
"""
