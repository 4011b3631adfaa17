"""Stage 4, batches to logits: encoder, heads, generators."""
