"""Stage 1, text to ids: normalization, vocabulary, tokenizer."""
