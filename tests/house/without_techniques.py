"""Runs the conformance kernels while every technique is refused; prints what came of each, and who was called.

`python -m tests.house.without_techniques MODULE …`
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

import pypto as pto
from pypto.backends.cpu.codegen import (
    function,
    interleaved,
    load_hoisting,
    nan_speculation,
    nontemporal,
    peeling,
    persistent_loops,
    pipelined_reduction,
    prefetch,
    register_transpose,
    split_stores,
    trip_count,
)
from pypto.backends.cpu.gemm import ir as gemm_ir
from pypto.backends.cpu.gemm import lowering, skinny
from pypto.backends.cpu.llvm import conversions, lane_emitter
from pypto.backends.cpu.loopir import fusion, materialize
from pypto.passes import coarsen_2d
from tests.conformance.running import ALL, assert_close, make_launch, run

SEARCHED: Final = ("pypto.backends.cpu.", "pypto.passes.")


def nothing(*_: Any, **__: Any) -> None:
    """The answer of a technique that finds nothing to do."""


def no(*_: Any, **__: Any) -> bool:
    return False


def as_it_is(function: Any, *_: Any) -> Any:
    return function


# Where the machinery asks a technique, and what it hears instead; who is not asked here is found by who is called.
REFUSED: Final[tuple[tuple[ModuleType | type, str, Any], ...]] = (
    (conversions, "is_narrow", no),
    (conversions, "rounds", no),
    (register_transpose.TransposeTiling, "transpose_axis", lambda *_: -1),
    (pipelined_reduction, "find_pipelined_reduction", nothing),
    (peeling, "why_not_peeled", lambda *_, **__: "it is refused"),
    (lane_emitter, "has_factor", no),
    (lane_emitter, "scales", no),
    (nan_speculation, "can_speculate", no),
    (nan_speculation, "can_speculate_rows", no),
    (fusion, "interchange", no),
    (fusion, "is_fusion_profitable", lambda *_: True),
    (trip_count.TripCounts, "bound", nothing),
    (trip_count.TripCounts, "record_readers", nothing),
    (gemm_ir, "can_fuse_epilogue", no),
    (materialize, "values_read_by_dot", lambda *_: iter(())),
    (lowering, "normalize_pointer_loops", as_it_is),
    (lowering, "swap_operands", as_it_is),
    (lowering, "split_terms", lambda *_: 1),
    (lowering, "transpose_attention", as_it_is),
    (lowering, "retile_reductions", as_it_is),
    (lowering, "float8_as_bfloat16", as_it_is),
    (lowering, "plan_panel_cache", nothing),
    (lowering, "amx_k_words", lambda words: 0),
    (lowering, "unswitch_modulo", as_it_is),
    (function, "OUTLINE_ABOVE", sys.maxsize),
    (prefetch, "loads_to_prefetch", lambda *_: {}),
    (load_hoisting, "hoist_loads_above_stores", nothing),
    (split_stores, "split_store", lambda e, value, pointer, align: [(value, pointer)]),
    (nontemporal, "nontemporal_condition", nothing),
    (skinny, "is_skinny", no),
    (interleaved, "INTERLEAVE_STRIDES", ()),
    (coarsen_2d, "coarsen", lambda function, target: [function]),
    (persistent_loops, "persistent_loop_context", lambda *_: {}),
)


def refuse() -> None:
    """Put every answer in its place, under all names by which modules of the backend or passes know the question."""
    for owner, name, answer in REFUSED:
        asked = getattr(owner, name)
        setattr(owner, name, answer)
        for module in [m for key, m in sys.modules.items() if key.startswith(SEARCHED)]:
            if vars(module).get(name) is asked:
                setattr(module, name, answer)


class Called:
    """The functions of some modules of the backend that are called while it is on."""

    def __init__(self, names: list[str]) -> None:
        self.names = frozenset(names)
        self.found: set[str] = set()
        self.seen: dict[int, CodeType] = {}  # by identity, which is quicker than what makes codes equal

    def __call__(self, frame: Any, event: str, _: Any) -> None:
        code: CodeType = frame.f_code
        if event != "call" or id(code) in self.seen:
            return
        self.seen[id(code)] = code
        module = "/".join(Path(code.co_filename).with_suffix("").parts[-2:])
        if module in self.names:
            self.found.add(f"{module.replace('/', '.')}.{code.co_qualname.partition('.<locals>')[0]}")


def outcome(name: str) -> str:
    launch = make_launch(name)
    found = run(pto.jit(launch.kernel.function), launch)
    assert_close(found, launch.expected, launch.tolerance, name)
    return "right"


if __name__ == "__main__":
    refuse()
    called = Called(sys.argv[1:])
    sys.setprofile(called)
    for name in ALL:
        print(f"{name}: {outcome(name)}")
    sys.setprofile(None)
    print("called:", *sorted(called.found))
