"""Stage 7, downstream tasks: trials, scores, predictions.

Read in this order: `tasks.task` (what a task is), `tasks.catalog` (all of
them; `tagging` and `question_answering` hold two kinds), `rows` and `batches`
(what a model is fed), `model`, `trial` (one training), `session`, `finetune`
(all that a command asks for). `probing` and `measure` say what an encoder is
worth without much training; `analysis` uses them.
"""
