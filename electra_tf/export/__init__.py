"""Checkpoints to other worlds: SavedModels, other runtimes, other formats.

Read `saved_model` first, then `signatures`; `pretrained` and `finetuned` hold
what models answer.
"""
