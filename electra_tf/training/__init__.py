"""Trains any `TrainableModel`: step, loop, optimizers, checkpoints, reports."""
