"""Models in the files of other projects: TF1, Hugging Face, KerasHub, ours.

`portable` is what all of them become, `reading` finds out which one a path is
and makes layers of it, `parameter_names` has the names. Nothing here needs the
foreign library but `keras_hub_preset`.
"""
