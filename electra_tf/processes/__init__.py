"""Processes side by side, their progress, and files that appear whole."""
