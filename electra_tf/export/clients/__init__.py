"""Users of exported models: what they ask, and how answers are shown."""
