"""Downstream tasks: text to rows, and a head's outputs to answers.

Read `task` first, then `rows` and `windows` (how rows are laid out), then one
of the kinds: `sentences.packing`, `tagging.words` or
`question_answering.questions`. `catalog` lists all tasks. Training calls these
with whole splits, an exported model has them in its graph.
"""
