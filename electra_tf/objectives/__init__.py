"""The objectives of pre-training, one file each. Read `base` and `electra`."""
