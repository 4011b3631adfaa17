"""From shards to masked batches: order, pipeline, masks, random numbers."""
