"""Training on downstream tasks: trials, scores, predictions.

Read in this order: `tasks.task` (what a task is) and `tasks.catalog` (all of
them), `batches` (what a model is fed), `model`, `trials.trial` (one training),
`trials.session`, `finetune` (all that a command asks for). `probing` and
`measure` say what an encoder is worth without much training; `analysis` uses
them.
"""
