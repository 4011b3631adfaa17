"""Pre-training objectives, one file each. Read `base` and `electra` first."""
