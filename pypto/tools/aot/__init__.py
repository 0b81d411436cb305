"""Kernels ahead of time: an object or a shared library, with a C header; `pypto.aot` loads it without a compiler."""

from pypto.tools.aot.build import build as build

__all__ = ["build"]
