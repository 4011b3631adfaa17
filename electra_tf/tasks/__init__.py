"""Downstream tasks: text to rows, and a head's outputs to answers.

Read `base` first, then `rows`, then the task of one of the kinds.
"""
