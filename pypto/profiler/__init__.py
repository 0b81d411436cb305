"""Profiles a block: it measures the time of each operator of torch, kernel, label and source line.

Read `recording` and `clock`, `rows`, `profile`, then `torch_operators`, `bounds` and `wall` for the wall time of all
that runs, `table` and `timeline`.
"""

from pypto.profiler.profile import Profile, profile

__all__ = ["Profile", "profile"]
