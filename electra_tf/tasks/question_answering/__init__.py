"""Extractive question answering.

Read `task` first, then `records` (files), `questions` (rows), `spans`
(candidates) and `answers` (texts).
"""
