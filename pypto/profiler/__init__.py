"""The profiler: where the time of kernels goes, by kernel, label and source line, as rows, a table and a timeline."""

from pypto.profiler.profile import Profile, profile

__all__ = ["Profile", "profile"]
