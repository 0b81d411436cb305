"""Launches in functions that torch.compile traces: they become one operator in the graph, `torch.ops.pypto.launch`.

Dynamo runs `traced_launch` symbolically. What a kernel writes must be known then, since the operator says so of its
arguments, and torch orders and copies by it. So `planned`, which Dynamo runs as it is, builds the kernel's Tile IR for
arrays of these types, of any size. When the operator runs, the version that is launched is held to what was said.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pypto.arguments import describe
from pypto.errors import Diagnostic
from pypto.errors.launch import TracedLaunch
from pypto.ir.types import DType
from pypto.passes.memory_effects import written_names
from pypto.runtime.arrays import ArrayInfo, dtype_of
from pypto.runtime.launch import Grid
from pypto.runtime.mode import MODE, PLAIN
from pypto.runtime.signature import Signature

torch: Any = importlib.import_module("torch")
Row = tuple[Any, ...]  # of an argument: its kind, and of a tensor its dtype and rank, else its value
_LISTS: Final = ("written", "read", "integers", "floats")  # of arguments of the operator
_EXTENTS: Final = (16, 64)  # of arrays whose sizes nobody knows yet, where a tile's extent is one of them
_SCHEMA: Final = (
    "launch(int call, SymInt[] grid, SymInt[] integers, float[] floats, Tensor(a!)[] written, Tensor[] read) -> ()"
)


@dataclass(frozen=True)
class Call:
    """A launch in a graph: a kernel, and where the values of its parameters come from.

    `sources` has a row for each parameter: a list of the operator's arguments and a number in it, or a constant.
    """

    kernel: Any
    sources: tuple[tuple[str, Any], ...]
    written: frozenset[str]

    def values(self, given: Mapping[str, Sequence[Any]]) -> tuple[Any, ...]:
        return tuple(x if kind == "constant" else given[kind][x] for kind, x in self.sources)


@dataclass(frozen=True)
class Stand:
    """A tensor of which only type and rank are known."""

    dtype: DType
    rank: int
    extent: int

    def as_array_info(self) -> ArrayInfo:
        shape = (self.extent,) * self.rank
        strides = tuple(self.extent**n for n in reversed(range(self.rank)))
        return ArrayInfo(64, shape, strides, self.dtype, True, self)


@dataclass
class Calls:
    """The launches in the graphs of this process, by number, and torch's library that makes them."""

    made: list[Call] = field(default_factory=list)
    numbers: dict[Any, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.library = torch.library.Library("pypto", "FRAGMENT")
        self.library.define(_SCHEMA)
        self.library.impl("launch", self.launch, "CPU")
        self.library.impl("launch", torch.library.fallthrough_kernel, "Autograd")
        torch.library.register_fake("pypto::launch", lambda *_: None, lib=self.library)

    def number(self, call: Call) -> int:
        key = id(call.kernel), tuple((kind, type(x), x) for kind, x in call.sources)
        with self.lock:
            if key not in self.numbers:
                self.made.append(call)
                self.numbers[key] = len(self.made) - 1
            return self.numbers[key]

    def launch(
        self,
        number: int,
        grid: Sequence[int],
        integers: Sequence[int],
        floats: Sequence[float],
        written: Sequence[Any],
        read: Sequence[Any],
    ) -> None:
        """What the operator does."""
        call = self.made[number]
        values = call.values({"written": written, "read": read, "integers": integers, "floats": floats})
        if MODE.get() == PLAIN and not any(call.kernel.modes):
            plan, _ = call.kernel.ready(tuple((*grid, 1, 1)[:3]), values)
            self.check(call, plan.version.program.written)
        call.kernel.launch(tuple(grid), *values)

    def check(self, call: Call, written: frozenset[str]) -> None:
        if not written <= call.written:
            arg = min(written - call.written)
            problem = f"this version writes to `{arg}`, which those for other sizes do not"
            raise TracedLaunch(kernel=call.kernel.signature.kernel, problem=problem)


@functools.lru_cache(maxsize=1)
def calls() -> Calls:
    """The operator, which is made with the first launch that is traced."""
    return Calls()


def traced_subscript(kernel: Any, grid: Grid) -> Callable[..., None]:
    """`kernel[grid]` in a function that Dynamo traces."""
    return functools.partial(traced_launch, kernel, grid)


def outside_subscript(launchable: Any, grid: Any) -> Callable[..., None]:
    """`launchable[grid]` of what no graph can hold, in a function that Dynamo traces."""
    return functools.partial(outside_launch, launchable, grid)


def outside_launch(launchable: Any, grid: Any, *args: Any, **given: Any) -> None:
    outside(launchable, grid, args, given)


def traced_launch(kernel: Any, grid: Any, *args: Any, **given: Any) -> None:
    """`kernel[grid](…)` in a function that Dynamo traces: written for what Dynamo follows."""
    names, constants, is_open = parameters(kernel)
    if is_open:
        outside(kernel, grid, args, given)
        return
    values = {**dict(zip(names, args)), **{n: x for n, x in given.items() if n in names}}  # noqa: B905
    if callable(grid):
        grid = grid(values)
    sizes = list(grid) if isinstance(grid, (tuple, list)) else [grid]
    told: list[Any] = []
    for name, x in values.items():
        if isinstance(x, torch.Tensor):
            told += [name, "tensor", x.dtype, x.dim()]
        elif isinstance(x, (tuple, list)) and name not in constants:
            outside(kernel, sizes, args, given)
            return
        elif type(x) is float and name not in constants:
            told += [name, "floats", None, None]
        elif type(x) is not bool and isinstance(x, int) and name not in constants:
            told += [name, "integers", None, None]
        else:
            told += [name, "constant", int(x) if type(x) is int else x, None]
    number, kinds = planned(kernel, *told)
    lists: dict[str, list[Any]] = {"written": [], "read": [], "integers": [], "floats": []}
    for name, kind in kinds:
        if kind == "written" and torch.is_grad_enabled() and values[name].requires_grad:
            outside(kernel, sizes, args, given)
            return
        lists[kind].append(values[name])
    torch.ops.pypto.launch(number, sizes, lists["integers"], lists["floats"], lists["written"], lists["read"])


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def parameters(kernel: Any) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
    """Names of a kernel's parameters, those of the constant ones, and whether there may be more of them."""
    names, signature = kernel.signature.names, kernel.signature
    constant = tuple(n for n, fixed in zip(names, signature.constant, strict=True) if fixed)
    return names, constant, signature.positional >= 0


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def planned(kernel: Any, *told: Any) -> tuple[int, tuple[tuple[str, str], ...]]:
    """The number of a launch, and which list of the operator's each argument that is no constant goes to.

    `told` has four entries for each argument: its name, its kind, and of a tensor its dtype and rank, else its value.
    """
    kernel._make_table()
    rows = {told[n]: tuple(told[n + 1 : n + 4]) for n in range(0, len(told), 4)}
    try:
        written = written_by(kernel, rows)
    except Diagnostic as error:
        problem = f"it cannot be compiled for arrays of these types: {error}"
        raise TracedLaunch(kernel=kernel.signature.kernel, problem=problem) from None
    kinds = {name: kind if kind != "tensor" else "written" if name in written else "read"
             for name, (kind, _, _) in rows.items()}  # fmt: skip
    number = calls().number(Call(kernel, sources(kernel.signature, rows, kinds), written))
    return number, tuple((name, kind) for name, kind in kinds.items() if kind != "constant")


def sources(signature: Signature, rows: Mapping[str, Row], kinds: Mapping[str, str]) -> tuple[tuple[str, Any], ...]:
    """Where the value of each parameter comes from."""
    places = {kind: itertools.count() for kind in _LISTS}
    found = {name: (kind, next(places[kind]) if kind in places else rows[name][1]) for name, kind in kinds.items()}
    return tuple(found.get(name, ("constant", signature.defaults.get(name))) for name in signature.names)


def written_by(kernel: Any, rows: Mapping[str, Row]) -> frozenset[str]:
    """The arrays that a kernel writes, by its Tile IR for these types."""
    problem: Diagnostic | None = None
    for extent in _EXTENTS:
        try:
            return built_for(kernel, {name: example(row, extent) for name, row in rows.items()})
        except Diagnostic as error:
            problem = problem or error
    assert problem is not None
    raise problem


def example(row: Row, extent: int) -> Any:
    """A value of the kind that an argument has."""
    kind, held, rank = row
    if kind == "tensor":
        dtype = dtype_of(held)
        return Stand(dtype, rank, extent) if dtype else torch.empty((0,) * rank, dtype=held)
    return {"integers": 2, "floats": 2.0}.get(kind, held)


def built_for(kernel: Any, values: Mapping[str, Any]) -> frozenset[str]:
    infos, specs = describe(kernel.signature, kernel.signature.bind((), values))
    arrays = {name: info for name, info in infos.items() if isinstance(info, ArrayInfo)}
    unknown = frozenset((name, dim) for name, info in arrays.items() for dim in range(len(info.shape)))
    built, _ = kernel.build(infos, specs, unknown, {})
    return written_names(built.function)


_OUTSIDE: Final = (
    "a launch with tuples, of a tuner or of a kernel with *args, or that writes to what requires grad, is made outside"
    " of the graph"
)

_REASON: Final = {"reason": _OUTSIDE} if "reason" in inspect.signature(torch.compiler.disable).parameters else {}


@torch.compiler.disable(**_REASON)  # type: ignore[untyped-decorator]
def outside(kernel: Any, grid: Any, args: Any, given: Any) -> None:
    """A launch that no graph can hold: Dynamo ends its graph before it, and begins another one behind it."""
    kernel.launch(tuple(grid) if isinstance(grid, list) else grid, *args, **given)
