"""Tile IR to C: one function that runs all programs of a launch, op by op, each tile in memory of its own.

An op with a handler here is structural. Any other elementwise op runs the lane rule of its row through `CEmitter`, and
a reduction or scan runs the rule that combines two of its elements. Everything else is refused with its line.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final

from pypto.backends.base import FIXED_SLOTS, Slot, mangled
from pypto.ir.core import Function, Op, Region, Value
from pypto.ir.types import ArrayType, DType
from pypto.ops.memory import Access, pointee
from pypto.ops.row import Reduction
from pypto.ops.table import TABLE
from pypto_portable_c.emitter import C_TYPES, PRELUDE, CEmitter, Element, literal
from pypto_portable_c.errors import NotInPortableC

_ALIGNMENT: Final = 16  # of a tile in the memory of a launch


def lower(function: Function) -> tuple[str, tuple[Slot, ...], str]:
    """The symbol, the slots of the argument block that the code reads, and the text."""
    made = Lowering(function)
    return f"kernel_{mangled(function.name)}", tuple(made.slots), made.text()


class Lowering:
    """The state of one function: lines of C, a variable for each value, and the memory that tiles take."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.lines: list[str] = []
        self.declared: list[str] = []
        self.slots: dict[Slot, int] = {}
        self.names: dict[Value, str] = {}
        self.bytes = 0
        self.emitter = CEmitter(self.line)
        for value in function.args:
            if isinstance(value.type, ArrayType):
                continue
            dtype = self.dtype(value, function)
            word = self.slot(Slot("scalar", value.hint, 0, dtype))
            self.line(f"memcpy(&{self.name(value)}, &{word}, sizeof {self.name(value)});")
        self.region(function.body)

    def text(self) -> str:
        """The whole file."""
        body = "\n".join(f"    {line}" for line in (*self.declared, *PROGRAMS, *self.lines, "}", "free(memory);"))
        head = f"int kernel_{mangled(self.function.name)}(const int64_t *args) {{"
        memory = f"    char *memory = malloc({self.bytes + 1});\n    if (!memory) return 1;"
        tables = "\n".join(self.emitter.tables.values())
        return f"{PRELUDE}{tables}\n\n{head}\n{memory}\n{body}\n    return 0;\n}}\n"

    # --- parts of the text -------------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        self.lines.append(text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.line(f"{head} {{")
        yield
        self.line("}")

    @contextmanager
    def loops(self, shape: Sequence[int]) -> Iterator[list[str]]:
        """Loops over all elements of a shape; gives the indices."""
        self.emitter.count += 1
        index = [f"i{self.emitter.count}_{d}" for d in range(len(shape))]
        for name, size in zip(index, shape, strict=True):
            self.line(f"for (int64_t {name} = 0; {name} < {size}; {name}++) {{")
        yield index
        self.line("}" * len(index))

    def slot(self, slot: Slot) -> str:
        """A word of the argument block."""
        return f"args[{FIXED_SLOTS + self.slots.setdefault(slot, len(self.slots))}]"

    # --- values ------------------------------------------------------------------------------------------------------

    def dtype(self, value: Value, where: Op | Function) -> DType:
        """The element type of a value that rules compute with."""
        found = value.tile.elem
        if not isinstance(found, DType) or found.mnemonic not in C_TYPES:
            raise NotInPortableC(where.loc, what=f"the element type {found}")
        return found

    def name(self, value: Value, where: Op | None = None) -> str:
        """The variable of a value, declared at its first use: a number, or a pointer to the elements of a tile."""
        if value in self.names:
            return self.names[value]
        self.names[value] = name = f"v{len(self.names)}"
        is_pointer = value.tile.is_ptr
        kind = "int64_t" if is_pointer else C_TYPES[self.dtype(value, where or self.function).mnemonic]
        if not value.shape:
            self.declared.append(f"{kind} {name} = 0;")
            return name
        self.declared.append(f"{kind} *{name} = ({kind} *)(memory + {self.bytes});")
        size = value.tile.size * (8 if is_pointer else value.dtype.itemsize)
        self.bytes += -(-size // _ALIGNMENT) * _ALIGNMENT
        return name

    def at(self, value: Value, index: Sequence[str]) -> str:
        """The element at an index of a shape to which the value broadcasts."""
        shape = value.shape
        if not shape:
            return self.name(value)
        terms = []
        for d, name in enumerate(index[len(index) - len(shape) :]):
            if shape[d] > 1:
                terms.append(f"{name} * {math.prod(shape[d + 1 :])}")
        return f"{self.name(value)}[{' + '.join(terms) or '0'}]"

    def element(self, op: Op, value: Value, index: Sequence[str]) -> Element:
        return Element(self.at(value, index), self.dtype(value, op))

    def copy(self, target: Value, source: Value) -> None:
        """The value of another variable; both have one type."""
        with self.loops(target.shape) as index:
            self.line(f"{self.at(target, index)} = {self.at(source, index)};")

    # --- ops ---------------------------------------------------------------------------------------------------------

    def region(self, region: Region) -> None:
        for op in region.body:
            self.op(op)

    def op(self, op: Op) -> None:
        row = TABLE[op.name]
        for value in op.results:
            self.name(value, op)
        if op.name in HANDLERS:
            HANDLERS[op.name](self, op)
        elif row.elementwise and callable(row.lane_rule):
            self.elementwise(op, row.lane_rule)
        elif isinstance(row.lane_rule, Reduction):
            (self.reduction if "reduction" in row.traits else self.scan)(op, row.lane_rule)
        elif "arg_reduction" in row.traits:
            self.arg_reduction(op)
        else:
            raise NotInPortableC(op.loc, what=f"`{op.name}`")

    def elementwise(self, op: Op, rule: Callable[..., Any]) -> None:
        with self.loops(op.result.shape) as index:
            lanes = [self.element(op, v, index) for v in op.operands]
            self.dtype(op.result, op)
            self.line(f"{self.at(op.result, index)} = {rule(self.emitter, op, *lanes).text};")

    def result_index(self, op: Op, index: Sequence[str]) -> list[str]:
        """Where an element of the operand goes in a reduction's result."""
        axes = op.attrs["axes"]
        if op.attrs["keep_dims"]:
            return ["0" if d in axes else name for d, name in enumerate(index)]
        return [name for d, name in enumerate(index) if d not in axes]

    def reduction(self, op: Op, rule: Reduction) -> None:
        (source,), dtype = op.operands, self.dtype(op.result, op)
        with self.loops(op.result.shape) as index:
            self.line(f"{self.at(op.result, index)} = {literal(rule.identity(dtype), dtype)};")
        with self.loops(source.shape) as index:
            total = Element(self.at(op.result, self.result_index(op, index)), dtype)
            combined = rule.combine(self.emitter, total, self.element(op, source, index))
            self.line(f"{total.text} = {combined.text};")

    def arg_reduction(self, op: Op) -> None:
        """The first index of the best element; a NaN is never better, and anything is better than it."""
        (source,), (axis,) = op.operands, op.attrs["axes"]
        dtype, sign = self.dtype(source, op), ">" if op.name == "argmax" else "<"
        with self.loops([1 if d == axis else n for d, n in enumerate(source.shape)]) as index:
            place = self.at(op.result, self.result_index(op, index))
            self.line(f"{C_TYPES[dtype.mnemonic]} best = {self.at(source, [*index[:axis], '0', *index[axis + 1 :]])};")
            self.line(f"{place} = 0;")
            with self.block(f"for (int64_t k = 1; k < {source.shape[axis]}; k++)"):
                now = self.at(source, [*index[:axis], "k", *index[axis + 1 :]])
                is_better = f"{now} {sign} best || (best != best && {now} == {now})"
                self.line(f"if ({is_better}) {{ best = {now}; {place} = k; }}")

    def scan(self, op: Op, rule: Reduction) -> None:
        (source,), axis = op.operands, op.attrs["axis"]
        dtype, size = self.dtype(source, op), source.shape[axis]
        with self.loops([1 if d == axis else n for d, n in enumerate(source.shape)]) as index:
            self.line(f"{C_TYPES[dtype.mnemonic]} total = {literal(rule.identity(dtype), dtype)};")
            with self.block(f"for (int64_t step = 0; step < {size}; step++)"):
                self.line(f"int64_t k = {f'{size - 1} - step' if op.attrs['reverse'] else 'step'};")
                place = [*index[:axis], "k", *index[axis + 1 :]]
                found = rule.combine(self.emitter, Element("total", dtype), self.element(op, source, place))
                self.line(f"{self.at(op.result, place)} = total = {found.text};")


PROGRAMS: Final = (
    "for (int64_t p = 0; p < args[0] * args[1] * args[2]; p++) {",
    "const int64_t program[3] = {p % args[0], p / args[0] % args[1], p / args[0] / args[1]};",
)

# --- handlers: values ------------------------------------------------------------------------------------------------


def fill(low: Lowering, op: Op, element: Callable[[list[str]], str]) -> None:
    """Every element of a result from its index."""
    with low.loops(op.result.shape) as index:
        low.line(f"{low.at(op.result, index)} = {element(index)};")


def constant(low: Lowering, op: Op) -> None:
    text = literal(op.attrs["value"], low.dtype(op.result, op))
    fill(low, op, lambda index: text)


def undef(low: Lowering, op: Op) -> None:
    fill(low, op, lambda index: "0")


def arange(low: Lowering, op: Op) -> None:
    fill(low, op, lambda index: f"{op.attrs['start']} + {index[0]}")


def broadcast_to(low: Lowering, op: Op) -> None:
    fill(low, op, lambda index: low.at(op.operands[0], index))


def permute(low: Lowering, op: Op) -> None:
    dims = op.attrs["dims"]
    fill(low, op, lambda index: low.at(op.operands[0], [index[dims.index(d)] for d in range(len(dims))]))


def reshape(low: Lowering, op: Op) -> None:
    (source,) = op.operands
    names = [f"{low.name(v)}{'[k]' if v.shape else ''}" for v in (op.result, source)]
    low.line(f"for (int64_t k = 0; k < {op.result.tile.size}; k++) {names[0]} = {names[1]};")


def slice_of(low: Lowering, op: Op) -> None:
    starts, steps = op.attrs["starts"], op.attrs["steps"]

    def element(index: list[str]) -> str:
        return low.at(op.operands[0], [f"({a} + {i} * {b})" for a, i, b in zip(starts, index, steps, strict=True)])

    fill(low, op, element)


def dot(low: Lowering, op: Op) -> None:
    """A matrix product, term by term in the type of the result."""
    a, b, *acc = op.operands
    kind = C_TYPES[low.dtype(op.result, op).mnemonic]
    with low.loops(op.result.shape) as index:
        total, k = low.at(op.result, index), "k"
        low.line(f"{total} = {low.at(acc[0], index) if acc else 0};")
        with low.block(f"for (int64_t {k} = 0; {k} < {a.shape[-1]}; {k}++)"):
            row, column = low.at(a, [*index[:-1], k]), low.at(b, [*index[:-2], k, index[-1]])
            low.line(f"{total} += ({kind}){row} * ({kind}){column};")


def program_id(low: Lowering, op: Op) -> None:
    low.line(f"{low.name(op.result)} = program[{op.attrs['axis']}];")


def num_programs(low: Lowering, op: Op) -> None:
    low.line(f"{low.name(op.result)} = args[{op.attrs['axis']}];")


def of_array(kind: str) -> Callable[[Lowering, Op], None]:
    """A fact of an array argument, from the argument block."""

    def handler(low: Lowering, op: Op) -> None:
        word = low.slot(Slot(kind, op.operands[0].hint, op.attrs.get("dim", 0)))
        low.line(f"{low.name(op.result)} = {word};")

    return handler


# --- handlers: memory ------------------------------------------------------------------------------------------------


def memory_type(low: Lowering, op: Op, pointer: Value) -> tuple[str, int]:
    """The C type of what a pointer points to, and its bytes."""
    found = pointee(pointer.type).elem
    if not isinstance(found, DType) or found.mnemonic not in C_TYPES:
        raise NotInPortableC(op.loc, what=f"the element type {found}")
    return C_TYPES[found.mnemonic], found.itemsize


def addptr(low: Lowering, op: Op) -> None:
    base, offset = op.operands
    size = memory_type(low, op, base)[1]
    fill(low, op, lambda index: f"{low.at(base, index)} + (int64_t){low.at(offset, index)} * {size}")


def load(low: Lowering, op: Op) -> None:
    pointers, *others = op.operands
    mask, other = (*others, None, None)[:2]
    transfer(low, op, pointers, (mask, other, None), lambda index: (low.at(pointers, index), ""))


def store(low: Lowering, op: Op) -> None:
    pointers, value, *others = op.operands
    mask = others[0] if others else None
    transfer(low, op, pointers, (mask, None, value), lambda index: (low.at(pointers, index), ""))


def tile_access(low: Lowering, op: Op) -> None:
    """Elements along strides; those beyond an extent do not exist."""
    access = Access.of(op)
    size = memory_type(low, op, access.base)[1]
    dims = list(zip(access.offsets, access.strides, access.extents, strict=True))

    def place(index: list[str]) -> tuple[str, str]:
        at = [f"((int64_t){low.name(offset)} + {i})" for i, (offset, _, _) in zip(index, dims, strict=True)]
        moved = [f" + {a} * (int64_t){low.name(stride)} * {size}" for a, (_, stride, _) in zip(at, dims, strict=True)]
        exists = [f"{a} >= 0 && {a} < {low.name(extent)}" for a, (_, _, extent) in zip(at, dims, strict=True)]
        return low.at(access.base, index) + "".join(moved), " && ".join(exists)

    transfer(low, op, access.base, (access.mask, access.other, access.value), place, access.shape)


Place = Callable[[list[str]], tuple[str, str]]  # from an index to the address and the condition that it exists


def transfer(
    low: Lowering, op: Op, pointer: Value, values: Sequence[Value | None], place: Place, shape: Any = None
) -> None:
    """Load or store every element that exists and that the mask takes; `values` are the mask, other and the value."""
    mask, other, value = values
    kind = memory_type(low, op, pointer)[0]
    with low.loops(pointer.shape if shape is None else shape) as index:
        address, exists = place(index)
        conditions = [c for c in (exists, low.at(mask, index) if mask is not None else "") if c]
        test, memory = " && ".join(conditions) or "1", f"*({kind} *)({address})"
        if value is not None:
            low.line(f"if ({test}) {memory} = {low.at(value, index)};")
        else:
            missing = low.at(other, index) if other is not None else "0"
            low.line(f"{low.at(op.result, index)} = {test} ? {memory} : {missing};")


# --- handlers: control flow ------------------------------------------------------------------------------------------


def assign(low: Lowering, targets: Sequence[Value], sources: Sequence[Value], op: Op) -> None:
    for target, source in zip(targets, sources, strict=True):
        low.name(target, op)
        low.copy(target, source)


def branch(low: Lowering, op: Op) -> None:
    for head, region in zip((f"if ({low.name(op.operands[0])})", "else"), op.regions, strict=True):
        with low.block(head):
            low.region(region)
            assign(low, op.results, region.terminator.operands, op)


def for_loop(low: Lowering, op: Op) -> None:
    (start, stop, step), (region,) = map(low.name, op.operands[:3]), op.regions
    counter, *state = region.args
    i = f"i_{low.name(counter, op)}"
    assign(low, op.results, op.operands[3:], op)
    with low.block(f"for (int64_t {i} = {start}; {step} > 0 ? {i} < {stop} : {i} > {stop}; {i} += {step})"):
        low.line(f"{low.name(counter)} = {i};")
        assign(low, state, op.results, op)
        low.region(region)
        assign(low, op.results, region.terminator.operands, op)


def while_loop(low: Lowering, op: Op) -> None:
    test, body = op.regions
    assign(low, op.results, op.operands, op)
    with low.block("for (;;)"):
        assign(low, test.args, op.results, op)
        low.region(test)
        low.line(f"if (!{low.name(test.terminator.operands[0])}) break;")
        assign(low, body.args, op.results, op)
        low.region(body)
        assign(low, op.results, body.terminator.operands, op)


HANDLERS: Final[Mapping[str, Callable[[Lowering, Op], None]]] = MappingProxyType({
    "constant": constant, "undef": undef, "arange": arange, "broadcast_to": broadcast_to, "reshape": reshape,
    "slice": slice_of, "dot": dot,
    "permute": permute, "program_id": program_id, "num_programs": num_programs, "array_ptr": of_array("ptr"),
    "array_shape": of_array("shape"), "array_stride": of_array("stride"), "addptr": addptr, "load": load,
    "store": store, "tile_load": tile_access, "tile_store": tile_access, "if": branch, "for": for_loop,
    "while": while_loop,
})  # fmt: skip
