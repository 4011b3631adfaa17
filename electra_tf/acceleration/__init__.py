"""Optimizations for CPUs, GPUs and TPUs, each with its measured gain.

`operations` holds parts of the networks, `random_bits` the random numbers of
dropout and sampling. Results equal those of plain TensorFlow operations,
except that random numbers on TPUs have a generator of their own.
"""
