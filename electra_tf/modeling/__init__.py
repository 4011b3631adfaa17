"""The networks, from batches of ids to logits (paper, sections 2 and 3)."""
