"""Stage 3, shards to batches: randomness, pipeline, masking."""
