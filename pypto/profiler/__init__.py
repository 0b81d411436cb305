"""The profiler shows where kernels spend their time, by kernel, label and source line, as rows, a table and a timeline.

Read `recording` and `clock`, `rows`, `profile`, `table` and `timeline`.
"""

from pypto.profiler.profile import Profile, profile

__all__ = ["Profile", "profile"]
