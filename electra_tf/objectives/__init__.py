"""The objectives of pre-training, one file each.

`base.py` has the class that each extends, `electra.py` the paper's objective;
`registry.py` knows their names.
"""
