"""Faults done to real processes: see `docs/reliability.md`.

Read `victims` (a process and its end), `kinds` (what is killed), `damage`
(what else goes wrong), `__main__` (how often, and the table).
"""
