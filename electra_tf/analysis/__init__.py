"""Stage 8 too: questions about models and speed."""
