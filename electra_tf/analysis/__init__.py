"""Questions about models: studies, and scores of sentences."""
