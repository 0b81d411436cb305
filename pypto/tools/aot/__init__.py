"""Kernels ahead of time: an object or a shared library, with a C header; `pypto.aot` loads it without a compiler.

Read `build`, `contract` and `header`.
"""

from pypto.tools.aot.build import build as build

__all__ = ["build"]
