"""Trials: one training each, their folders, and what came of them.

Read `trial` first, then `trial_dir`, `session` and `results`.
"""
