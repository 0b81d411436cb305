"""Lazy arrays: they record operations, and fused kernels compute them when a value is needed.

`arrays` has their graph; `namespace` is their namespace of the array API standard, with functions that create them.
"""

from pypto.graph.lazy.arrays import LazyGraph, lazy

__all__ = ["LazyGraph", "lazy"]
