"""One tag for every word: readers, rows, scores.

Read `task` first, then `conll` (files), `spans` (what tags mean), `words`
(rows) and `scores`.
"""
