"""Text to TFRecord shards; `writer` puts the rest in order."""
