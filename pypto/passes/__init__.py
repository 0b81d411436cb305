"""Passes: functions from Tile IR to Tile IR with the same meaning, and the order in which they run.

A launch out of the disk cache loads none of their modules.

Read `manager` and `pattern`; the lists are `preparing` and `optimizing`. Facts: `target_facts`, and `analysis`.
Simplification: `canonicalize` (with `rules`), `cse`, `dce`, `licm`, `widen`, `guards`. Accesses and loops: `access`,
`induction`, `normalize_loops`, `unswitch_modulo`, `program_order`. Products: `products`, `k_blocking`, `coarsening`,
`coarsen_2d`, `swap_operands`, `transpose_attention`. Gradients: `adjoint`.
"""

from __future__ import annotations

from pypto.ir.core import Function


def prepare(function: Function) -> Function:
    """The passes from the front end's IR to the IR of the interpreter and of every backend."""
    from pypto.passes.manager import run
    from pypto.passes.preparing import PREPARE

    result: Function = run(function, PREPARE)
    return result


def optimize(function: Function) -> Function:
    """The passes from prepared IR to what a backend lowers."""
    from pypto.passes.manager import run
    from pypto.passes.optimizing import OPTIMIZE

    result: Function = run(function, OPTIMIZE)
    return result
