"""Stage 9, our numbers against reference folders."""
