"""What exported models compute, how fast, and how weights are stored."""
