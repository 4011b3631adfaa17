"""Text to TFRecord shards.

Read `examples` and `schema` first, then `writer`, which puts the rest in
order: `corpus` and `readers`, `plan`, `shards`, `manifest`.
"""
