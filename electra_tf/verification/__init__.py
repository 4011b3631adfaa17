"""Stage 8, our numbers against reference folders."""
