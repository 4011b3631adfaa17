"""Questions about models: studies, tests of sentences and words, speed."""
