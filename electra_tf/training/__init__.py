"""Stage 5, losses to checkpoints: optimizers, step, loop, checkpoints."""
