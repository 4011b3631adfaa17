"""Formulas that objectives share: losses, sampling and accuracies."""
