"""Writes the reference: one page for every public name, from the op table and the docstrings.

``python -m docs.reference`` writes ``docs/reference``; a test holds the pages to what it would write.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import pkgutil
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

import pypto as pto
from docs.details import DETAILS, Part
from docs.examples import EXAMPLES
from docs.numpydoc import markdown, methods
from pypto import language, ops
from pypto.backends.ascend.rules.kinds import ViaFormula, ViaInstruction, ViaLaneRule, ViaScalarUnit
from pypto.backends.ascend.rules.table import rule_for
from pypto.errors import Diagnostic
from pypto.ir.types import DTYPES, DType, float32, float64
from pypto.ops.public import OpFunction
from pypto.ops.row import REQUIRED, Effect, OpRow, Search, Structural, Unsupported
from tests.conformance.sources import define
from tests.ops.rows import calls, operands_of, takes

FOLDER: Final = Path(__file__).with_name("reference")
SPECIAL: Final = (np.nan, -np.inf, -1.0, -0.0, 0.0, 1.0, np.inf)
FAMILIES: Final = {
    "arith": "Arithmetic and casts", "casts": "Arithmetic and casts", "math": "Mathematics", "shape": "Shapes",
    "reduce": "Reductions and scans", "select": "Picking elements", "memory": "Memory", "atomic": "Atomics",
    "matmul": "Matrix products",
}  # fmt: skip
# Names that are imported from modules of their own, and what public functions give.
BESIDE: Final = (
    "pypto.testing.assert_close", "pypto.testing.compare", "pypto.testing.do_bench", "pypto.testing.perf_report",
    "pypto.testing.Benchmark", "pypto.testing.Comparison", "pypto.debug.explain.explain",
    "pypto.debug.inspection.Inspection", "pypto.profiler.Profile", "pypto.tuning.Autotuner",
    "pypto.compat.triton.install",
)  # fmt: skip
# Methods of public classes that are there for other rooms of the package.
INSIDE: Final = (
    "build", "check_writable", "compiled", "compiler", "execute", "interpret", "kernel_source", "profiled", "ready",
    "through_python",
    "add", "all", "collect", "keep", "locked", "plain",
    "all_kwargs", "choose", "fits", "measured_by", "predict", "prune_configs", "search", "trial",
)  # fmt: skip
# Values for the names in examples.
NAMES: Final = {
    "offsets": "pto.arange(0, 8)", "n": "6", "mask": "offsets < n", "value": "p[:] + 1", "x": "p[:]", "y": "p[:] * 2",
    "z": "p[:] + 1", "indices": "7 - pto.arange(0, 8)", "a": "pto.ones((2, 3), pto.float32)",
    "b": "pto.ones((3, 4), pto.float32)", "acc": "pto.ones((2, 4), pto.float32)",
}  # fmt: skip
SHAPED: Final = {"broadcast_to": "pto.zeros((1, 8), pto.float32)", "permute": "pto.ones((2, 3), pto.float32)",
                 "reshape": "pto.arange(0, 128)"}  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """A public name with what is known of it."""

    name: str
    value: Any
    module: str = "pto"

    @property
    def path(self) -> str:
        return f"{self.module}.{self.name}"

    @property
    def row(self) -> OpRow | None:
        return self.value.row if isinstance(self.value, OpFunction) else None

    @property
    def family(self) -> str:
        if self.row is not None:
            module = origin(self.row)
            return next((text for stem, text in FAMILIES.items() if module.startswith(stem)), "Other ops")
        if isinstance(self.value, DType):
            return "Types"
        if self.module != "pto":
            return "Testing, looking inside, and what functions give"
        if self.name not in language.__all__:
            return "Kernels, launches and tools"
        return "Functions in the language" if inspect.isfunction(self.value) else "Built into the front end"

    @property
    def signature(self) -> str:
        with contextlib.suppress(TypeError, ValueError):
            signature = inspect.signature(self.value)
            plain = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
            return f"{self.path}{inspect.Signature(plain)}"
        return self.path

    @property
    def summary(self) -> str:
        if isinstance(self.value, DType):
            return f"Element type of {self.value.bits} bits ({self.value.kind})."
        return (inspect.getdoc(self.value) or "").split("\n\n")[0].replace("\n", " ")


def origin(row: OpRow) -> str:
    """The module or folder of `pypto.ops` that holds a row."""
    names = (m.name for m in pkgutil.walk_packages(ops.__path__, "pypto.ops."))
    found = next(n for n in names if row in getattr(importlib.import_module(n), "ROWS", ()))
    return found.split(".")[2]


def entries() -> list[Entry]:
    public = [Entry(name, getattr(pto, name)) for name in sorted({*pto.__all__} - {"language"})]
    split = [path.rsplit(".", 1) for path in BESIDE]
    return public + [Entry(name, getattr(importlib.import_module(module), name), module) for module, name in split]


def page(entry: Entry) -> str:
    parts = [f"# {entry.path}", f"```\n{entry.signature}\n```", entry.summary]
    if entry.row is not None:
        parts += row_parts(entry.row)
    elif not isinstance(entry.value, DType):
        rest = (inspect.getdoc(entry.value) or "").partition("\n\n")[2]
        parts += [markdown(rest), *method_parts(entry.value)]
        parts += example_parts(EXAMPLES[entry.name]) if entry.name in EXAMPLES else []
    parts += detail_parts(DETAILS.get(entry.name, ()))
    return "\n\n".join(part for part in parts if part) + "\n"


def detail_parts(parts: Iterable[Part]) -> list[str]:
    """What is told beyond the docstring; every example is run."""
    return [text for part in parts for text in (f"## {part.heading}", part.text, detail_example(part.body))]


def detail_example(body: str) -> str:
    text = f"@pto.jit\ndef kernel(p):\n{textwrap.indent(body, '    ')}\n"
    return shown(text, run_example(text)) if body else ""


def method_parts(value: Any) -> list[str]:
    """The methods of a class."""
    parts = []
    found = methods(value) if isinstance(value, type) else []
    for name, doc in found:
        if name.partition("(")[0] in INSIDE:
            continue
        first, _, rest = doc.partition("\n\n")
        parts += [f"### `{name}`", markdown(first), markdown(rest, "**{}**")]
    return ["## Methods", *parts] if parts else []


def example_parts(body: str) -> list[str]:
    """Types, backends and a run of an example, for a name that is no row."""
    text = f"@pto.jit\ndef kernel(p):\n{textwrap.indent(body, '    ')}\n"
    accepted = [d for d in DTYPES if runs(text, d)] if "p[" in body else []
    sections = [f"## Types\n\nThe example runs for {listed(accepted)}."] if accepted else []
    where = "It is composed of other ops, and runs wherever they do: on the CPU and in the interpreter."
    return [*sections, f"## Backends\n\n{where}", f"## Example\n\n{shown(text, run_example(text, False))}"]


def runs(text: str, dtype: DType) -> bool:
    try:
        run_example(text, dtype=dtype)
    except (Diagnostic, TypeError):
        return False
    return True


def row_parts(row: OpRow) -> list[str]:
    sections = (("Parameters", parameters(row)), ("Types", types(row)), ("Edge cases", edges(row)),
                ("Accuracy", accuracy(row)), ("Backends", backends(row)), ("Example", example(row)))  # fmt: skip
    return [f"## {title}\n\n{text}" for title, text in sections if text]


def parameters(row: OpRow) -> str:
    lines = ["| name | kind | default | |", "|---|---|---|---|"]
    for p in row.params:
        kind = "tile or number" if p.is_operand else p.kind
        lines.append(f"| `{p.name}` | {kind} | {'' if p.default is REQUIRED else f'`{p.default!r}`'} | {p.doc} |")
    return "\n".join(lines) if row.params else ""


def types(row: OpRow) -> str:
    """Result by operand type, for ops that compute."""
    if row.reference is None or not operands_of(row):
        return ""
    if any(p.kind in ("dtype", "elem") and p.default is REQUIRED for p in row.params):
        return f"Takes {listed(takes(row))}; gives the type that is asked for."
    by_result: dict[DType, list[DType]] = {}
    for dtype in takes(row):
        by_result.setdefault(calls(row, dtype)[0].op.results[0].dtype, []).append(dtype)
    same = [d for d, sources in by_result.items() if d in sources]
    lines = ["| operands | result |", "|---|---|", *([f"| {listed(same)} | the same |"] if same else [])]
    others = [(result, [d for d in sources if d != result]) for result, sources in by_result.items()]
    lines += [f"| {listed(sources)} | {listed([result])} |" for result, sources in others if sources]
    return "\n".join(lines)


def listed(dtypes: Iterable[DType]) -> str:
    return ", ".join(f"`{d.public}`" for d in dtypes)


def edges(row: OpRow) -> str:
    """What a function of one float gives for values that are special."""
    if not (row.elementwise and row.reference and len(operands_of(row)) == 1 and float32 in takes(row)):
        return ""
    call = calls(row, float32)[0]
    if call.op.results[0].dtype not in (float32, float64):
        return ""
    found = np.asarray(row.reference(call.op, np.array(SPECIAL, np.float32))).astype(np.float32)
    cells = [" | ".join(f"{v:g}" for v in values) for values in (SPECIAL, found)]
    return f"| x | {cells[0]} |\n|---|{'---|' * len(SPECIAL)}\n| {row.name}(x) | {cells[1]} |"


_WORDS = {"f16": "float16", "f32": "float32", "f64": "float64", "i16": "int16", "i32": "int32", "u16": "uint16"}


def accuracy(row: OpRow) -> str:
    if row.reference is None or not row.elementwise:
        return ""
    told = [f"{ulp:g} ulp in {_WORDS.get(name, name)}" for name, ulp in row.ulp.items() if ulp]
    return f"At most {', '.join(told)}, against float64." if told else "Exact, or correctly rounded."


def backends(row: OpRow) -> str:
    kinds = {Structural: "loops of its own", Search: "loops of its own", Unsupported: "not supported"}
    cpu = kinds.get(type(row.lane_rule), "in vector registers")
    ascend = on_ascend(row)
    lines = ["| backend | |", "|---|---|", f"| CPU | {cpu} |", "| interpreter | numpy |", f"| Ascend | {ascend} |"]
    return "\n".join(lines)


def on_ascend(row: OpRow) -> str:
    cell = rule_for(row)
    if isinstance(cell, Unsupported):
        return f"not supported: {cell.reason}"
    if isinstance(cell, ViaInstruction):
        types = " and ".join(_WORDS.get(name, name) for name in cell.dtypes.split())
        error = f", {cell.ulp:g} ulp by its documentation" if cell.ulp else ""
        return f"the instruction `{cell.name}` in {types}{error}; others by more than one"
    if isinstance(cell, ViaFormula):
        own = [f"float32 to {cell.ulp:g} ulp"] * (cell.f32 is not None) + ["floats of 16 bits to 1 ulp"]
        others = "" if cell.f32 else "; float32 in vector instructions"
        return f"a formula on the vector unit's functions: {', '.join(own)}{others}"
    if isinstance(cell, ViaScalarUnit):
        return "one element at a time, in float64 of integer operations"
    return "in vector instructions" if isinstance(cell, ViaLaneRule) else "instructions of its own"


def example(row: OpRow) -> str:
    """A kernel with the row's example, and what the interpreter prints for it."""
    if not row.example:
        return ""
    text = example_kernel(row)
    return shown(text, run_example(text, integers=row.dtypes == "int"))


def shown(text: str, printed: str) -> str:
    return f"```python\n{text}```\n" + (f"\nwith `p = [1, 2, … 8]` prints\n\n```text\n{printed}```" if printed else "")


def example_kernel(row: OpRow) -> str:
    arrays = {"x": "p", "y": "p", "offsets": NAMES["offsets"]} if row.effect is not Effect.PURE else {}
    names = NAMES | ({"x": SHAPED[row.name]} if row.name in SHAPED else {}) | arrays
    used = dict.fromkeys(n for n in words(row.example) if n in names)
    if "mask" in used:
        used = dict.fromkeys(["offsets", "n", *used])
    lines = [f"{n} = {names[n]}" for n in sorted(used, key=list(names).index)]
    call = f"pto.{row.example}"
    body = [*lines, call if row.name == "store" else f"print({call})"]
    return "@pto.jit\ndef kernel(p):\n" + textwrap.indent("\n".join(body), "    ") + "\n"


def words(text: str) -> list[str]:
    return "".join(c if c.isidentifier() or c.isdigit() else " " for c in text).split()


def run_example(text: str, integers: bool = False, dtype: DType | None = None) -> str:
    kernel: Any = define(text.removeprefix("@pto.jit\n"))
    p = np.arange(1, 9).astype(dtype.numpy if dtype is not None else np.int32 if integers else np.float32)
    output = io.StringIO()
    with contextlib.redirect_stdout(output), np.printoptions(precision=4, suppress=True, linewidth=100):
        pto.interpret(kernel)[1](p)
    return output.getvalue()


def index(found: list[Entry]) -> str:
    lines = [
        "# Reference",
        "",
        "Every public name, from the op table and the docstrings. Written by `python -m docs.reference`.",
    ]
    for family in sorted({e.family for e in found}):
        lines += ["", f"## {family}", "", "| | |", "|---|---|"]
        lines += [f"| [`{e.name}`]({e.name}.md) | {e.summary} |" for e in found if e.family == family]
    return "\n".join(lines) + "\n"


def pages() -> dict[str, Callable[[], str]]:
    """File names of the whole reference, and what writes their texts."""
    found = entries()
    return {"index.md": partial(index, found), **{f"{entry.name}.md": partial(page, entry) for entry in found}}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    wanted = pages()
    for old in FOLDER.glob("*.md"):
        if old.name not in wanted:
            old.unlink()
    for name, text in wanted.items():
        (FOLDER / name).write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
