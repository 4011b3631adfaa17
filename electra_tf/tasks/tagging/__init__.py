"""Tasks with one tag for every word.

Read `task` first, then `conll` (files), `spans` (meaning of tags, scores) and
`words` (rows).
"""
