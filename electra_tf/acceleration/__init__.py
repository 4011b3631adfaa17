"""Optimizations for CPUs, GPUs and TPUs, each with its measured gain.

`operations` has parts of the networks, `random_bits` the bits of dropout and
samples. All give the numbers of plain TensorFlow in less time or memory.
"""
