"""Processes side by side, and how far they have come."""
