"""Runs pre-trainings and estimates their cost."""
