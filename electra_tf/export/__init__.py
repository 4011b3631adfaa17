"""Exports: SavedModels, other checkpoint formats, serving.

Read `saved_model` first. `models` computes the answers of exports; `clients`
asks exports and models in memory.
"""
