"""Code generation: Block IR to Ascend C of the basic API, as text that every toolkit compiles.

Legal for kernels that are whole: buffers have addresses, and events and barriers are in place. Each statement has the
user's file and line as a comment, from which errors of the compiler and faults of the device find their place.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from pypto.backends.ascend.block.stage_index import compute_stage_indices
from pypto.backends.ascend.blockir.effects import (
    all_views,
    assigned,
    buffers_in,
    condition_of,
    items_of,
    live_names,
    memory_reads,
    names_in,
    pipe_of,
    scalars,
)
from pypto.backends.ascend.blockir.ir import (
    Assign,
    BlockKernel,
    Buffer,
    Expr,
    If,
    Instr,
    Item,
    Let,
    Loop,
    Param,
    Scalar,
    While,
    fold,
)
from pypto.backends.ascend.blockir.reserved import symbol
from pypto.backends.ascend.blockir.rewrite import without_dead
from pypto.backends.ascend.blockir.softfloat64 import texts_of
from pypto.backends.ascend.emit.calls import call
from pypto.backends.ascend.emit.cxx import COMPARED, CTYPES, Names, argument, scalar, tensor_type
from pypto.backends.ascend.emit.text import wrapped
from pypto.backends.ascend.target import AscendTarget
from pypto.errors import CompilerBug
from pypto.ir.types import DType, int64

KINDS: Final = MappingProxyType({"vector": "__vector__", "cube": "__cube__"})
POSITIONS: Final = MappingProxyType({"UB": "VECCALC", "L1": "A1", "L0A": "A2", "L0B": "B2", "L0C": "CO1", "BT": "C2",
                                     "FB": "C2PIPE2GM"})  # fmt: skip
LONG: Final = 40  # characters of a loop's bound, which gets a name
WORKSPACE: Final = "workspace"
HELPER: Final = """
template <typename T>
__aicore__ inline T {name}(T a, T b) {{
    return a {sign} b ? a : b;
}}
"""


@dataclass
class Writer:
    """The lines of a kernel so far, and names and types of what they declare."""

    kernel: BlockKernel
    target: AscendTarget
    names: Names = field(default_factory=Names)
    lines: list[str] = field(default_factory=list)
    depth: int = 1
    changed: frozenset[str] = frozenset()
    live: frozenset[str] = frozenset()
    place: int = 0  # the user's line that the last comment names

    def put(self, text: str, line: int = 0) -> None:
        """Append a statement, with the user's file and line as a comment if these are not those of the one before."""
        file = "".join(c if c.isprintable() else "?" for c in os.path.basename(self.kernel.file))
        note = f"  // {file or 'line'}:{line}" if line not in (0, self.place) else ""
        self.place = line or self.place
        self.lines += wrapped("    " * self.depth + text, note)

    def blank(self) -> None:
        if self.lines and self.lines[-1] and not self.lines[-1].endswith("{"):
            self.lines.append("")

    def text(self, value: Scalar) -> str:
        return scalar(value, self.names).text


def emit(kernel: BlockKernel, target: AscendTarget) -> str:
    """Emit the Ascend C source of a kernel.

    Raises
    ------
    CompilerBug
        When a buffer has no address, or an instruction does not fit the table of instructions.
    """
    kernel = compute_stage_indices(without_dead(kernel))
    everything = kernel.body + kernel.cube_body
    writer = Writer(kernel, target, changed=assigned(everything), live=live_names(everything))
    head = _head(writer)
    writer.put("InitSocState();")
    _arrays(writer)
    if kernel.kind == "mix":
        _branch(writer, "ASCEND_IS_AIC", kernel.cube_body)
        _branch(writer, "ASCEND_IS_AIV", kernel.body)
    else:
        _core(writer, kernel.cube_body if kernel.kind == "cube" and kernel.cube_body else kernel.body)
    writer.blank()
    writer.put("PipeBarrier<PIPE_ALL>();")
    signs = {"Lesser": "<", "Greater": ">"}
    helpers = [HELPER.format(name=name, sign=signs[name]) for name in sorted(signs) if name in writer.names.helpers]
    helpers += [f"\n{text}" for text in texts_of(writer.names.helpers - signs.keys())]
    top = ['#include "kernel_operator.h"', "using namespace AscendC;"]
    return "\n".join([*top, *(text.rstrip("\n") for text in helpers), "", *head, *writer.lines, "}", ""])


def _head(writer: Writer) -> list[str]:
    """Emit the function's head. A parameter that nothing reads has no name, since it would be a warning."""
    kernel, names = writer.kernel, writer.names
    touched = buffers_in(kernel.body + kernel.cube_body)
    texts = []
    for param in kernel.params:
        name = names.add(param.name, int64 if param.is_array else param.dtype)
        ctype = "GM_ADDR" if param.is_array else CTYPES[param.dtype.mnemonic]
        used = param.name in (touched if param.is_array else writer.live) or param.name == WORKSPACE
        texts.append(f"{ctype} {name}" if used else f"{ctype} /* {name} */")
    kind = KINDS.get(kernel.kind, f"__mix__(1, {writer.target.ratio})")
    name = symbol(kernel.name)
    text = f'extern "C" __global__ {kind} __aicore__ void {name}({", ".join(texts)}) {{'
    return wrapped(text, opens=f" {name}(")


def _arrays(writer: Writer) -> None:
    """Declare a tensor for each array in GM."""
    kernel, names = writer.kernel, writer.names
    touched = buffers_in(kernel.body + kernel.cube_body)
    for param in (p for p in kernel.params if p.is_array and p.name in touched and p.name != WORKSPACE):
        stem = names.text[param.name].removesuffix("_ptr").rstrip("_")
        name = names.add(f"tensor {param.name}", param.dtype, f"{stem}Gm")
        ctype = tensor_type(param.dtype)
        writer.put(f"GlobalTensor<{ctype}> {name};")
        writer.put(f"{name}.SetGlobalBuffer((__gm__ {ctype}*){names.text[param.name]});")
    _streams(writer)


def _streams(writer: Writer) -> None:
    """Emit cache hints: arrays that are loaded once bypass L2 where a launch moves more than L2 holds."""
    kernel, names = writer.kernel, writer.names
    arrays = [names.text[f"tensor {name}"] for name in kernel.streams]
    depends = bool(arrays) and kernel.streams_from > 0
    if depends:
        programs = fold("*", fold("*", Expr("i64", ("grid_x",)), "grid_y"), "grid_z")
        test = writer.text(Expr(">=", (programs, kernel.streams_from)))
        writer.put(f"if ({test}) {{  // read once, and all in all more than L2 holds")
    writer.depth += depends
    for array in arrays:
        writer.put(f"{array}.SetL2CacheHint(CacheMode::CACHE_MODE_DISABLE);")
    writer.depth -= depends
    if depends:
        writer.put("}")


def _branch(writer: Writer, test: str, items: tuple[Item, ...]) -> None:
    writer.blank()
    writer.put(f"if {test} {{")
    writer.depth += 1
    writer.place = 0
    _core(writer, items)
    writer.depth -= 1
    writer.put("}")


def _core(writer: Writer, items: tuple[Item, ...]) -> None:
    """Emit the code of one kind of core: its tensors and index variables, then its items."""
    touched = buffers_in(items)
    mine = [b for b in writer.kernel.buffers if b.name in touched]
    if mine:
        writer.blank()
    for buffer in mine:
        _tensor(writer, buffer)
    if mine:
        writer.blank()
    _identity(writer, items)
    _shared(writer, items)
    _sequence(writer, items)


def _shared(writer: Writer, items: tuple[Item, ...]) -> None:
    """Declare tensors for arrays in the block's part of the workspace."""
    touched = (view.of for item in items_of(items) for view in all_views(item))
    for param in dict.fromkeys(p for p in touched if isinstance(p, Param) and p.place is not None):
        ctype, name = tensor_type(param.dtype), writer.names.add(f"tensor {param.name}", param.dtype, param.name)
        start = f"{WORKSPACE} + block * {writer.kernel.workspace}" + (f" + {param.place}" if param.place else "")
        writer.put(f"GlobalTensor<{ctype}> {name};")
        writer.put(f"{name}.SetGlobalBuffer((__gm__ {ctype}*)({start}));")


def _tensor(writer: Writer, buffer: Buffer) -> None:
    if buffer.address is None:
        raise CompilerBug(f"the buffer {buffer.name} has no address: plan the kernel first")
    name = writer.names.add(f"tensor {buffer.name}", buffer.dtype, buffer.name)
    elements = buffer.bytes // buffer.dtype.itemsize if buffer.stages > 1 else buffer.elements
    note = f"  // {buffer.stages} stages" if buffer.stages > 1 else ""
    place = f"TPosition::{POSITIONS[buffer.space]}, {buffer.address}, {elements}"
    writer.put(f"LocalTensor<{tensor_type(buffer.dtype)}> {name}({place});{note}")


def _identity(writer: Writer, items: tuple[Item, ...]) -> None:
    """Declare the core's indices that are read. A vector core of a mixed kernel has the index of its block."""
    by_block = writer.kernel.kind == "mix" and items is writer.kernel.body
    ratio = f" / {writer.target.ratio}" if by_block else ""
    calls = {"block": f"GetBlockIdx(){ratio}", "blocks": "GetBlockNum()", "sub_block": "GetSubBlockIdx()"}
    mine = live_names(items)
    for name in (x for x in calls if x in mine):
        writer.names.text[name] = name
        writer.names.dtypes[name] = int64
        writer.put(f"const int64_t {name} = {calls[name]};")


def _sequence(writer: Writer, items: tuple[Item, ...]) -> None:
    """Emit items, with a blank line where the pipe changes."""
    leading: list[Item] = []
    before = ""
    for at, item in enumerate(items):
        stage = "leads" if _opens(items, at) else _stage(item)
        if stage == "leads":
            leading.append(item)
            continue
        if stage != "trails":
            if before and (stage != before or stage == "block"):
                writer.blank()
            before = stage
        if isinstance(item, Loop):
            _loop(writer, item, leading)
        else:
            _items(writer, (*leading, item))
        leading = []
    _items(writer, leading)


def _items(writer: Writer, items: Iterable[Item]) -> None:
    for item in items:
        _item(writer, item)


def _opens(items: tuple[Item, ...], at: int) -> bool:
    """Whether an item is a signal in front of a loop, which the loop's first wait takes."""
    behind = (x for x in items[at:] if not (isinstance(x, Instr) and x.name == "SetFlag"))
    is_signal = isinstance(item := items[at], Instr) and item.name == "SetFlag"
    return is_signal and isinstance(next(behind, None), Loop)


def _stage(item: Item) -> str:
    """Return the pipe of an item. Waits ``lead`` and belong to what follows; signals ``trail`` what is before them."""
    if not isinstance(item, Instr):
        return "leads" if isinstance(item, Let | Assign) else "block"
    if item.name in ("WaitFlag", "PipeBarrier", "CrossCoreWaitFlag", "SetAtomicAdd", "SetAtomicMax", "SetAtomicMin"):
        return "leads"
    return "trails" if pipe_of(item) == "S" and item.name != "SetValue" else pipe_of(item)


def _item(writer: Writer, item: Item) -> None:
    match item:
        case Instr():
            *before, last = call(item, writer.names)
            for text in before:
                writer.put(text)
            writer.put(last, item.line)
        case Let():
            _let(writer, item)
        case Assign():
            _assign(writer, item)
        case Loop():
            _loop(writer, item, [])
        case While():
            _while(writer, item)
        case If():
            _if(writer, item)


def _as(value: Scalar, dtype: DType, writer: Writer) -> str:
    return argument(value, CTYPES[dtype.mnemonic], writer.names)


def _assign(writer: Writer, item: Assign) -> None:
    name, dtype = writer.names.text[item.name], writer.names.dtypes[item.name]
    value = _as(item.value, dtype, writer)
    counts = dtype.is_int and value == f"{name} + 1"
    writer.put(f"++{name};" if counts else f"{name} = {value};", item.line)


def _let(writer: Writer, item: Let) -> None:
    text = _as(item.value, item.dtype, writer)
    known = isinstance(item.value, int | float) and item.dtype.bits != 16
    word = "" if item.name in writer.changed else "constexpr " if known else "const "
    name = writer.names.add(item.name, item.dtype)
    writer.put(f"{word}{CTYPES[item.dtype.mnemonic]} {name} = {text};", item.line)


def _body(writer: Writer, items: tuple[Item, ...]) -> None:
    writer.depth += 1
    _sequence(writer, items)
    writer.depth -= 1


def _loop(writer: Writer, item: Loop, leading: list[Item]) -> None:
    """Emit a loop behind the items that lead to it. Names of its bounds are declared before the signals."""
    signals = [x for x in leading if isinstance(x, Instr) and x.name == "SetFlag"]
    _items(writer, (x for x in leading if x not in signals))
    head = _loop_head(writer, item)
    _items(writer, signals)
    writer.put(head, item.line)
    _body(writer, item.body)
    writer.put("}")


def _loop_head(writer: Writer, item: Loop) -> str:
    if (condition := condition_of(item)) is not None and item.name not in _names_read(item.body):
        return f"if ({writer.text(condition)}) {{"
    ctype, step = CTYPES[item.dtype.mnemonic], item.step
    start = _as(item.start, item.dtype, writer)
    stop = _bound(writer, item, item.stop)
    name = writer.names.add(item.name, item.dtype)
    if not isinstance(step, int):
        by = _bound(writer, item, step)
        test = f"{name} < {stop}" if step == "blocks" else f"{by} > 0 ? {name} < {stop} : {name} > {stop}"
        advance = f"{name} += {by}"
    else:
        test = f"{name} {'<' if step > 0 else '>'} {stop}"
        advance = {1: f"++{name}", -1: f"--{name}"}.get(step, f"{name} {'+' if step > 0 else '-'}= {abs(step)}")
    return f"for ({ctype} {name} = {start}; {test}; {advance}) {{"


def _names_read(items: tuple[Item, ...]) -> frozenset[str]:
    return frozenset(x for item in items_of(items) for value in scalars(item) for x in names_in(value))


def _bound(writer: Writer, item: Loop, value: Scalar) -> str:
    """Return a loop bound as text. One that is long, or that the loop may change, gets a name in front of the loop."""
    moves = any(True for _ in memory_reads(value)) or set(names_in(value)) & (assigned(item.body) | {item.name})
    code = scalar(value, writer.names)
    if not moves and len(code.text) <= LONG:
        return _as(value, item.dtype, writer) if code.dtype.bits > item.dtype.bits else code.inside(COMPARED + 1)
    name = writer.names.fresh(f"{item.name}s" if item.step == "blocks" else f"{item.name}_end")
    writer.put(f"const {CTYPES[item.dtype.mnemonic]} {name} = {_as(value, item.dtype, writer)};")
    return name


def _while(writer: Writer, item: While) -> None:
    if not item.test:
        writer.put(f"while ({writer.text(item.condition)}) {{", item.line)
        _body(writer, item.body)
        writer.put("}")
        return
    writer.put("while (true) {", item.line)
    _body(writer, item.test)
    writer.depth += 1
    condition = scalar(item.condition, writer.names)
    writer.put(f"if (!{condition.inside(11)}) break;")
    writer.depth -= 1
    _body(writer, item.body)
    writer.put("}")


def _if(writer: Writer, item: If) -> None:
    writer.put(f"if ({writer.text(item.condition)}) {{", item.line)
    _body(writer, item.body)
    if item.orelse:
        writer.put("} else {")
        _body(writer, item.orelse)
    writer.put("}")
