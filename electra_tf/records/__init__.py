"""Stage 2, text to TFRecord shards.

Read `examples` and `schema` first, then `writer`, which puts the rest in
order: `corpus` and `readers`, `plan`, `parts`, `shards`, `manifest`.
"""
