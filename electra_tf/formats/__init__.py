"""Models in the files of other projects: TF1, Hugging Face, KerasHub, ours.

`portable` is what all of them become, `reading` finds out which one a path is,
`assembly` makes layers of it. Nothing here needs the foreign library but
`keras_hub_preset`.
"""
