"""Downstream tasks: text to rows, and a head's outputs to answers.

Read `task` first, then `rows` (how rows are laid out), then one of the kinds:
`sentences.packing`, `tagging.words` or `question_answering.questions`.
`catalog` lists all tasks.
"""
