"""Training on downstream tasks: trials, scores, predictions.

Read in this order: `tasks.base` (the interface of a task), `task_data` (the
input), `model`, `trial` (one training), `finetune` (everything that a command
asks for). `measure` says what an encoder is worth without much training;
`analysis` uses it.
"""
