"""Front end: a Python function becomes Tile IR, by a table of handlers over its syntax tree.

`build` stands in a module of its own, which a launch out of the disk cache does not load.

Read `spec`, `scope`, `values` and `source`; statements: `assign`, `flow`, `merge`, `loops`, `carry`; expressions:
`expressions`, `operators`, `calls`, `bind`, `intrinsics`, `elements`, `arrays`, `tuples`, `weak`, `ones`. Errors:
`advice`. The other way: `unparse` and `unparse_ops` print Tile IR as source.
"""

from pypto.frontend.source import REWRITTEN, KernelSource
from pypto.frontend.spec import ArgSpec, Built, Capture, ConstSpec, Facts

__all__ = ["REWRITTEN", "ArgSpec", "Built", "Capture", "ConstSpec", "Facts", "KernelSource"]
