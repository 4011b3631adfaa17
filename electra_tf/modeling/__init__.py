"""Batches to logits: layers, encoder, networks, heads of tasks."""
