"""Extractive question answering: SQuAD 1.1 and 2.0, MRQA, and own data."""
