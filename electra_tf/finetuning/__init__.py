"""Training on downstream tasks: data, model, trials, scores, predictions."""
