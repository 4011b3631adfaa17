"""One module for each pre-training objective; `objective.name` names it."""
