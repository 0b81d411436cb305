"""Front end: a Python function becomes Tile IR, by a table of handlers over its syntax tree."""

from pypto.frontend.build import build
from pypto.frontend.source import REWRITTEN, KernelSource
from pypto.frontend.spec import ArgSpec, Built, Capture, ConstSpec, Facts

__all__ = ["REWRITTEN", "ArgSpec", "Built", "Capture", "ConstSpec", "Facts", "KernelSource", "build"]
