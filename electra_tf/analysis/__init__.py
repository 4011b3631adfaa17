"""Stage 10: questions about models and speed."""
