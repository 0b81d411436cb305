"""The interpreter: what Tile IR means, run with numpy, program by program. It shares no lowering with the backends.

Read `run`, then `memory`.
"""

from pypto.interp.run import run

__all__ = ["run"]
