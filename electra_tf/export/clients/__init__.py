"""Clients of models: they score words, fill masks, and show the answers."""
