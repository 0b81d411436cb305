"""Runs the conformance kernels while every technique is refused; prints what came of each, and who was called.

`python -m tests.house.without_techniques MODULE …`
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

import pypto as pto
from pypto.backends.cpu import (
    convert,
    crosswise,
    early,
    edges,
    emitter,
    extremes,
    fuse,
    live,
    loads,
    lower,
    matmul,
    merging,
    plan,
    prefetch,
    products,
    stores,
    stream,
    streaming,
    strides,
    strips,
    turns,
)  # fmt: skip
from tests.conformance.running import ALL, assert_close, make_launch, run

CPU: Final = "pypto.backends.cpu."


def nothing(*_: Any, **__: Any) -> None:
    """The answer of a technique that finds nothing to do."""


def no(*_: Any, **__: Any) -> bool:
    return False


def as_it_is(function: Any, *_: Any) -> Any:
    return function


# Where the machinery asks a technique, and what it hears instead; who is not asked here is found by who is called.
REFUSED: Final[tuple[tuple[ModuleType | type, str, Any], ...]] = (
    (convert, "is_narrow", no),
    (convert, "rounds", no),
    (crosswise.Crossing, "loop", lambda *_: -1),
    (early, "find", nothing),
    (edges, "unsplit", lambda *_, **__: "it is refused"),
    (emitter, "has_factor", no),
    (emitter, "scales", no),
    (extremes, "can_trust", no),
    (extremes, "can_trust_rows", no),
    (fuse, "interchanged", no),
    (fuse, "related", lambda *_: True),
    (live.Live, "end", nothing),
    (live.Live, "read_by", nothing),
    (matmul, "may_finish", no),
    (plan, "read_by_dot", lambda *_: iter(())),
    (products, "counted", as_it_is),
    (products, "oriented", as_it_is),
    (products, "parts_of", lambda *_: 1),
    (products, "turned_loops", as_it_is),
    (products, "restep", as_it_is),
    (products, "sides_as_bfloat", as_it_is),
    (products, "stay", nothing),
    (products, "tile_words", lambda words: 0),
    (products, "unwrapped", as_it_is),
    (lower, "LARGE", sys.maxsize),
    (prefetch, "asking", lambda *_: {}),
    (loads, "load_first", nothing),
    (stores, "pieces", lambda e, value, pointer, align: [(value, pointer)]),
    (stream, "past_caches", nothing),
    (streaming, "is_streamed", no),
    (strides, "STEPS", ()),
    (strips, "merged_or_stripped", lambda function, target: [merging.Merged(function)]),
    (turns, "turn", lambda *_: {}),
)


def refuse() -> None:
    """Put every answer in its place, under all the names by which modules of the backend know the question."""
    for owner, name, answer in REFUSED:
        asked = getattr(owner, name)
        setattr(owner, name, answer)
        for module in [m for key, m in sys.modules.items() if key.startswith(CPU)]:
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
        path = Path(code.co_filename)
        if path.stem in self.names and path.parent.name == "cpu":
            self.found.add(f"{path.stem}.{code.co_qualname.partition('.<locals>')[0]}")


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
