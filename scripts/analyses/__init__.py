"""The analyses of `analyze.py`: each measures a model without training it."""
