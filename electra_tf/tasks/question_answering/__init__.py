"""Extractive question answering: readers, rows, answers, scores.

Read `task` first, then `records` (files), `contexts` (words and pieces),
`questions` (rows), `labels`, `spans` (candidates) and `answers`.
"""
