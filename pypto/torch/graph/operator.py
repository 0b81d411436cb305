"""The operator `torch.ops.pypto.launch`: the form of a launch in torch graphs, which runs in any process.

A graph stores the name of a kernel, and as JSON the source of each parameter's value: the operator's lists of tensors
and numbers, or a constant. Nothing in it depends on what one process has traced.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import json
import secrets
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pypto.errors import Diagnostic
from pypto.errors.launch import TracedLaunch
from pypto.ir.types import DTYPE_BY_NAME, DType
from pypto.runtime.launch import constant_key
from pypto.runtime.mode import MODE, PLAIN
from pypto.runtime.signature import Signature
from pypto.runtime.tensors import unseen
from pypto.torch.graph.names import PROCESS, Unnamed, kernels_named, name_of, place_of, refuse
from pypto.torch.graph.planning import ArgumentSpec, build

torch: Any = importlib.import_module("torch")
LISTS: Final = ("written", "read", "integers", "floats")  # of arguments of the operator
_SCHEMA: Final = (
    "launch(str kernel, str arguments, SymInt[] grid, SymInt[] integers, float[] floats, Tensor(a!)[] written, "
    "Tensor[] read) -> ()"
)
Planned = tuple[str, str, tuple[tuple[str, str], ...]]  # kernel, arguments, and the list of each that is no constant
Source = tuple[str, Any]  # of a parameter's value: a list of the operator and a number in it, or a constant


@dataclass(frozen=True)
class Call:
    """A launch in a graph: a kernel, and the sources of its parameters' values."""

    kernel: Any
    sources: tuple[Source, ...]

    @property
    def written(self) -> frozenset[str]:
        """The arrays that the operator declares as written."""
        rows = zip(self.kernel.signature.names, self.sources, strict=True)
        return frozenset(name for name, (kind, _) in rows if kind == "written")

    def values(self, given: Mapping[str, Sequence[Any]]) -> tuple[Any, ...]:
        return tuple(x if kind == "constant" else given[kind][x] for kind, x in self.sources)


@dataclass
class Launches:
    """The launches in the graphs of this process, by what graphs say of them, and torch's library that makes them.

    Attributes
    ----------
    kernels : dict
        By name.
    constants : list
        Those that JSON does not hold; graphs with such constants run in this process alone.
    process : str
        What the names of this process's own kernels and constants begin with.
    """

    kernels: dict[str, Any] = field(default_factory=dict)
    process_names: dict[int, str] = field(default_factory=dict)  # names that hold in this process alone, by kernel
    calls: dict[tuple[str, str], Call] = field(default_factory=dict)
    plans: dict[Any, tuple[Planned, Sequence[Any]]] = field(default_factory=dict)
    constants: list[Any] = field(default_factory=list)
    process: str = field(default_factory=lambda: PROCESS + secrets.token_hex(8))
    lock: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        self.library = torch.library.Library("pypto", "FRAGMENT")
        self.library.define(_SCHEMA)
        self.library.impl("launch", self.launch, "CompositeExplicitAutograd")
        self.library.impl("launch", torch.library.fallthrough_kernel, "Autograd")
        torch.library.register_fake("pypto::launch", lambda *_: None, lib=self.library)

    # --- writing ----------------------------------------------------------------------------------------------------

    def add(self, kernel: Any, captures: Sequence[Any], sources: tuple[Source, ...]) -> tuple[str, str]:
        """Returns the graph's description of a launch: the name of the kernel, and its arguments."""
        with self.lock:
            name = self.name(kernel, captures)
            arguments = json.dumps([[kind, self.encoded(x) if kind == "constant" else x] for kind, x in sources])
            self.calls.setdefault((name, arguments), Call(kernel, sources))
        return name, arguments

    def name(self, kernel: Any, captures: Sequence[Any]) -> str:
        """Returns the name of a kernel; a name for this process only, if it could mean another kernel."""
        try:
            name = name_of(kernel, captures)
        except Unnamed:
            name = ""
        if name and is_same(self.kernels.setdefault(name, kernel), kernel):
            return name
        if id(kernel) not in self.process_names:
            self.process_names[id(kernel)] = f"{place_of(kernel)}:{self.process}-{len(self.process_names)}"
            self.kernels[self.process_names[id(kernel)]] = kernel
        return self.process_names[id(kernel)]

    def encoded(self, value: Any) -> Any:
        """Encodes a constant as JSON."""
        if value is None or type(value) in (bool, int, float, str):
            return value
        if type(value) is tuple:
            return {"tuple": [self.encoded(x) for x in value]}
        if isinstance(value, DType):
            return {"dtype": value.mnemonic}
        number = next((n for n, x in enumerate(self.constants) if x is value), len(self.constants))
        if number == len(self.constants):
            self.constants.append(value)
        return {"object": f"{self.process}-{number}"}

    # --- reading ----------------------------------------------------------------------------------------------------

    def launch(
        self,
        kernel: str,
        arguments: str,
        grid: Sequence[int],
        integers: Sequence[int],
        floats: Sequence[float],
        written: Sequence[Any],
        read: Sequence[Any],
    ) -> None:
        """Runs the operator."""
        given = {"written": written, "read": read, "integers": integers, "floats": floats}
        call = self.calls.get((kernel, arguments)) or self.call_of(kernel, arguments, given)
        values = call.values(given)
        with unseen():  # modes have seen it, or the dispatcher is told to pass them over
            run(call, tuple(grid), values)

    def call_of(self, name: str, arguments: str, given: Mapping[str, Sequence[Any]]) -> Call:
        """The launch that a graph of another process means.

        Raises
        ------
        UnknownLaunch
            When this process does not have exactly that kernel.
        """
        sources = tuple((kind, self.decoded(name, x) if kind == "constant" else x) for kind, x in json.loads(arguments))
        with self.lock:
            known = self.kernels.get(name)
            for kernel in [known] if known is not None else kernels_named(name):
                call = Call(kernel, sources)
                if len(sources) == len(kernel.signature.names) and (known or self.is_meant(name, call, given)):
                    self.kernels[name] = kernel
                    return self.calls.setdefault((name, arguments), call)
        refuse(name, "whose source, options or constants are not those that it was traced with", "trace it again")

    def is_meant(self, name: str, call: Call, given: Mapping[str, Sequence[Any]]) -> bool:
        """Says whether a kernel has a name, built for the arguments of a launch."""
        rows: dict[str, ArgumentSpec] = {}
        for parameter, (kind, x) in zip(call.kernel.signature.names, call.sources, strict=True):
            if kind in ("written", "read"):
                rows[parameter] = "tensor", given[kind][x].dtype, tuple(given[kind][x].shape)
            else:
                rows[parameter] = kind, x if kind == "constant" else None, None
        call.kernel._make_table()
        try:
            written, captures = build(call.kernel, rows)
            return written == call.written and name_of(call.kernel, captures) == name
        except (Diagnostic, Unnamed):
            return False

    def decoded(self, name: str, value: Any) -> Any:
        """Decodes the constant of a launch."""
        if not isinstance(value, dict):
            return value
        ((kind, x),) = value.items()
        if kind == "tuple":
            return tuple(self.decoded(name, one) for one in x)
        if kind == "dtype":
            return DTYPE_BY_NAME[x]
        process, _, number = x.rpartition("-")
        if process != self.process:
            refuse(name, "with a constant that only the process that traced it has", "pass numbers, texts or dtypes")
        return self.constants[int(number)]


def is_same(a: Any, b: Any) -> bool:
    """Says whether kernels of one name always do the same; kernels from closures may differ."""
    x, y = a.function, b.function
    return a is b or (x.__globals__ is y.__globals__ and x.__closure__ is None and y.__closure__ is None)


def run(call: Call, grid: tuple[int, ...], values: tuple[Any, ...]) -> None:
    """Launches, if the kernel writes no more than the graph declares."""
    if MODE.get() == PLAIN and not any(call.kernel.modes):
        plan, _ = call.kernel.ready((*grid, 1, 1)[:3], values)
        more = plan.version.program.written - call.written
        if more:
            problem = f"this version writes to `{min(more)}`, which those for other sizes do not"
            raise TracedLaunch(kernel=call.kernel.signature.kernel, problem=problem)
    call.kernel.launch(grid, *values)


def plan(kernel: Any, rows: Mapping[str, ArgumentSpec]) -> Planned:
    """Returns the graph's description of a launch; `rows` has a row for each argument.

    Raises
    ------
    Diagnostic
        When the kernel cannot be compiled for them.
    """
    key = kernel, tuple((name, kind, constant_key(value), shape) for name, (kind, value, shape) in rows.items())
    planned_call, captures = launches().plans.get(key, (None, ()))
    if planned_call is None or any(capture.read() is not capture.value for capture in captures):
        planned_call, captures = made_plan(kernel, rows)
        launches().plans[key] = planned_call, captures
    return planned_call


def made_plan(kernel: Any, rows: Mapping[str, ArgumentSpec]) -> tuple[Planned, Sequence[Any]]:
    """A plan, and the values from outside that it holds for."""
    kernel._make_table()
    written, captures = build(kernel, rows)
    kinds = {name: kind if kind != "tensor" else "written" if name in written else "read"
             for name, (kind, _, _) in rows.items()}  # fmt: skip
    name, arguments = launches().add(kernel, captures, sources(kernel.signature, rows, kinds))
    return (name, arguments, tuple((name, kind) for name, kind in kinds.items() if kind != "constant")), captures


def sources(signature: Signature, rows: Mapping[str, ArgumentSpec], kinds: Mapping[str, str]) -> tuple[Source, ...]:
    """Returns the source of each parameter's value."""
    places = {kind: itertools.count() for kind in LISTS}
    by_name = {name: (kind, next(places[kind]) if kind in places else rows[name][1]) for name, kind in kinds.items()}
    return tuple(by_name.get(name, ("constant", signature.defaults.get(name))) for name in signature.names)


@functools.lru_cache(maxsize=1)
def launches() -> Launches:
    """Returns the operator of this process."""
    return Launches()
