"""Builds TFRecord shards from text; begin with `writer.build_dataset`."""
