"""Downstream tasks: text to rows, and a head's outputs to answers.

Read `task` first, then `rows` (how texts are laid out), then one of the kinds:
`sentences.task`, `tagging.words` or `question_answering.questions`. `catalog`
lists all tasks.
"""
