"""The parts of `benchmark.py`.

`timing.py` starts what is compared, each side in a process of its own, lets
the sides take turns, and computes; `report.py` shows. A module for each kind
says what its sides are and holds ours; `torch_peer.py` and `keras_hub_peer.py`
hold the others. `side.py` is what every process runs, and needs no package.
"""
