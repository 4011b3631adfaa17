"""The version of the project, as exports and model cards record it."""

VERSION = "0.1.0"
