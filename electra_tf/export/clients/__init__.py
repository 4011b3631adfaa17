"""Users of models: what they ask, and how answers are shown."""
