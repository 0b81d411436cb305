"""A module of Triton's IR that says which arguments a kernel reads and writes, for torch, which walks such modules.

torch.compile asks Triton for the IR of a kernel that a traced function launches, and follows each store back to an
argument. The module here has a load for each array that the kernel reads, and a store for each one that it writes, as
the Tile IR of the kernel says. It has nothing else, so it is no program.

    tt.func @scale(%0: x, %1: out, %2: n) { tt.load %0; tt.store %1; tt.return }
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from pypto.arguments import describe
from pypto.ir.core import Function
from pypto.jit.specialize import build
from pypto.passes.analysis.memory_effects import pointer_roots, reads_memory, writes_memory


@dataclass
class Numbered:
    """A value, block or region: all that is asked of it is its number."""

    number: int

    def id(self) -> int:
        return self.number


@dataclass
class Block(Numbered):
    """The body of a function, and the values of its parameters."""

    parent: Numbered
    parameters: list[Numbered]

    def get_parent(self) -> Numbered:
        return self.parent

    def get_num_arguments(self) -> int:
        return len(self.parameters)

    def get_argument(self, n: int) -> Numbered:
        return self.parameters[n]


@dataclass
class Operation:
    """An operation, by Triton's name of it."""

    name: str
    operands: list[Numbered] = field(default_factory=list)
    results: list[Numbered] = field(default_factory=list)
    regions: list[Numbered] = field(default_factory=list)
    block: Block | None = None
    symbol: str = ""

    def get_name(self) -> str:
        return self.name

    def get_block(self) -> Block | None:
        return self.block

    def get_num_operands(self) -> int:
        return len(self.operands)

    def get_operand(self, n: int) -> Numbered:
        return self.operands[n]

    def get_num_results(self) -> int:
        return len(self.results)

    def get_result(self, n: int) -> Numbered:
        return self.results[n]

    def get_num_regions(self) -> int:
        return len(self.regions)

    def get_region(self, n: int) -> Numbered:
        return self.regions[n]

    def get_str_attr(self, _: str) -> str:
        return self.symbol


@dataclass
class Module:
    """A module with one function, and the arguments that it writes."""

    operations: list[Operation]
    written: frozenset[str] = frozenset()

    def verify(self) -> bool:
        return True

    def walk(self, visit: Callable[[Operation], None]) -> None:
        """Calls a function with each operation, the inner ones first."""
        for operation in self.operations:
            visit(operation)

    def __str__(self) -> str:
        rows = (f"{op.name} {', '.join(f'%{x.number}' for x in op.operands)}".strip() for op in self.operations[:-1])
        return f"{self.operations[-1].name} @{self.operations[-1].symbol} {{ {'; '.join(rows)} }}"


def module_of(kernel: Any, signature: Mapping[str, Any], values: Mapping[str, Any]) -> Module:
    """Returns the module for a kernel under `triton.jit`, of the types in a signature and stand-ins for the arguments.

    A tensor descriptor counts as its base, and then as its sizes and strides.
    """
    numbers = count()
    parameters = {name: Numbered(next(numbers)) for name in parameter_names(kernel.arg_names, signature)}
    region = Numbered(next(numbers))
    block = Block(next(numbers), region, list(parameters.values()))
    reads, writes = accesses(tile_ir(kernel.ours, values))
    read, written = ([x for name, x in parameters.items() if name in names] for names in (reads, writes))
    return Module(
        [
            *(Operation("tt.load", [x], [Numbered(next(numbers))], block=block) for x in read),
            *(Operation("tt.store", [x], block=block) for x in written),
            Operation("tt.return", block=block),
            Operation("tt.func", regions=[region], symbol=kernel.__name__),
        ],
        writes,
    )


def parameter_names(names: Iterable[str], signature: Mapping[str, Any]) -> Iterator[str]:
    """Yields the parameters that are left once constants are, with those that a tensor descriptor becomes."""
    for name in names:
        if signature[name] == "constexpr":
            continue
        yield name
        if str(signature[name]).startswith("tensordesc"):
            rank = str(signature[name]).count(",") + 1
            yield from (f"{name} {n}" for n in range(2 * rank))


def tile_ir(kernel: Any, values: Mapping[str, Any]) -> Function:
    """Returns the Tile IR of a kernel for such arguments."""
    signature = kernel.signature
    infos, specs = describe(signature, tuple(values[name] for name in signature.names))
    built, _ = build(kernel, infos, specs, frozenset(), {})
    function: Function = built.function
    return function


def accesses(function: Function) -> tuple[frozenset[str], frozenset[str]]:
    """Returns the arguments that a function reads, and those that it writes.

    A pointer that comes from memory may lead anywhere, so then all arguments count.
    """
    roots, reads, writes = pointer_roots(function), set[str](), set[str]()
    everything = {arg.hint.partition(".")[0] for arg in function.args}
    for op in function.walk():
        reached = {name.partition(".")[0] for name in roots.get(op.operands[0], ())} if op.operands else set()
        if reads_memory(op):
            reads |= reached or everything
        if writes_memory(op):
            writes |= reached or everything
    return frozenset(reads), frozenset(writes)
