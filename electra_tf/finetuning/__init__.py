"""Stage 8, downstream tasks: what a pre-trained encoder is worth.

Read in this order: `tasks` (official files to sentences and labels),
`features` (sentences to arrays), `encoders` (a run's folder to its encoder),
`scores`, `probing` (a linear model on the frozen encoder), `short_finetune`
(a few steps of the whole encoder), `measure` (all of it by one call).
"""
