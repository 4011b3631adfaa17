"""Training on downstream tasks: trials, scores, predictions.

Read in this order: `tasks.task` (what a task is), `task_data` (what a model is
fed), `model`, `trial` (one training), `finetune` (all that a command asks for).
`measure` says what an encoder is worth without much training; `analysis` uses
it.
"""
