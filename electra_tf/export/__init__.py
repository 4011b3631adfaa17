"""Exports: SavedModels, other checkpoint formats, serving.

Read `saved_model` first; `models` holds what an export computes, `clients`
what asks it.
"""
