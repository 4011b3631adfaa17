"""The parts of `benchmark.py`: a module for each kind and each peer."""
