"""Front end: a Python function becomes Tile IR, by a table of handlers over its syntax tree."""

from pypto.frontend.build import build
from pypto.frontend.source import KernelSource
from pypto.frontend.spec import ArgSpec, ArraySpec, Built, Capture, ConstSpec, Facts, ScalarSpec

__all__ = ["ArgSpec", "ArraySpec", "Built", "Capture", "ConstSpec", "Facts", "KernelSource", "ScalarSpec", "build"]
