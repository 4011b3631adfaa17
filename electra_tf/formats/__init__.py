"""Models in the files of other projects: TF1, Hugging Face, KerasHub, ours."""
