"""Extractive question answering: readers, rows, answers, scores.

Read `task` first, then `records` and `sources` (files), `questions` (rows),
`spans` (candidates), `answers` (texts) and `squad_scores`.
"""
