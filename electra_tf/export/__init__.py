"""Stage 7, checkpoints to other worlds: TF1 names, SavedModel."""
