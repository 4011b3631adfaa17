"""What makes a step fast on CPUs, GPUs and TPUs; each with what it gains.

`fusion` says what XLA compiles. `operations` are parts of the networks,
`random_bits` the bits of dropout and samples, `lookups` rows of tables: the
same numbers as in a few lines of TensorFlow, in less time or memory. Figures
are of a whole step (docs/performance.md); what gains less than 3 % is not here.
"""
