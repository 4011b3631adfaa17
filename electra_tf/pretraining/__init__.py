"""Stage 6, the objectives: sampling, losses, model."""
