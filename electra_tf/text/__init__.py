"""Text to ids: normalization, vocabulary, tokenizer."""
