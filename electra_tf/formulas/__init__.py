"""The formulas that objectives share: draws, losses and accuracies."""
