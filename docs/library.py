"""Writes the page of the library's operators, ``docs/operators.md``, from their rows.

``python -m docs.library`` writes it; a test holds the page to what it would write. Figures come from `MEASURED`, which
``python -m benchmarks library --threads 1 --json FILE`` writes, each on a machine. Predicted times on Ascend come from
``docs/library-CHIP.json``, which ``pypto lib bench --platform CHIP --json`` prints.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from benchmarks.charts import machine_text
from pypto.library import Operator, rows

HERE: Final = Path(__file__).parent
PAGE: Final = HERE / "operators.md"
MEASURED: Final = (HERE / "library.json", HERE / "library-avx512.json")
CHIPS: Final = ("ascend910b2", "ascend950")
NAMES: Final = ("ours", "torch", "torch.compile")
NEWLINE: Final = "\nwhere "
HEAD: Final = """# Operators of large models

Every operator of `pypto.library`: what it computes, how exactly, where it runs, and how fast it is. [The
library](library.md) shows how they are called and how to add one.

This page is written by `python -m docs.library` from the rows; corrections belong there.
"""


def measured() -> list[dict[str, Any]]:
    """Runs of the benchmark, each of a machine."""
    return [json.loads(file.read_text(encoding="utf-8")) for file in MEASURED if file.exists()]


def dims(size: Any) -> str:
    return ", ".join(f"{name} = {number}" for name, number in size.items())


def facts(row: Operator) -> Iterator[tuple[str, str]]:
    """What the table of an operator says."""
    yield "source", row.source
    if row.effects:
        yield "written in place", ", ".join(f"`{name}`" for name in row.effects)
    for implementation in row.implementations:
        dtypes = ", ".join(implementation.dtypes) or "all dtypes"
        yield f"version `{implementation.version}`", f"{implementation.where}; {dtypes}"
    for name, tolerance in row.tolerance.items():
        yield f"tolerance of `{name}`", str(tolerance)
    for name, size in row.sizes.items():
        yield f"size *{name}*", dims(size)
    yield "gradient", getattr(row.gradient, "text", "") or f"none: {row.no_gradient}"
    if row.items:
        yield "independent items", f"`{row.items}`"
    if row.edges:
        yield "edge cases", ", ".join(row.edges)


def section(row: Operator) -> Iterator[str]:
    yield f"\n### {row.name}\n"
    yield f"{row.doc}.\n"
    yield f"```text\n{row.text.replace(' where ', NEWLINE)}\n```\n"
    yield f"{row.formula}\n"
    yield "| | |\n|---|---|"
    for name, value in facts(row):
        yield f"| {name} | {value} |"
    if row.notes:
        yield f"\n{row.notes}"


def speeds(runs: list[dict[str, Any]]) -> Iterator[str]:
    """The tables of times, and what limits those that are not far ahead."""
    if not runs:
        return
    yield "\n## Speed\n"
    yield "Times of the fastest call, taken in turns in one process, after each result was compared with the reference;"
    yield "the last column compares with the better of both, round by round."
    for run in runs:
        yield from times(run)
    yield "\nWhat limits those that are less than 1.2 times as fast, or far from the rate of the machine:\n"
    yield from (f"- `{row.name}`: {row.limited}" for row in rows.values() if row.limited)


def times(run: dict[str, Any]) -> Iterator[str]:
    """The table of a machine."""
    yield f"\nOn {machine_text(run)}:\n"
    yield "| operator | size | pypto | torch | torch.compile | times as fast |\n|---|---|---|---|---|---|"
    for row in run["rows"]:
        found = row["implementations"]
        cells = [f"{1e3 * found[n]['minimum_s']:.3g} ms" if n in found else "·" for n in NAMES]
        yield f"| {row['name']} | {row['shape']} | {' | '.join(cells)} | {row['ratio_to_best_peer']:.2f} |"


def predictions() -> dict[str, dict[str, Any]]:
    """Predicted times by chip and operator, of the chips that have any."""
    found = {}
    for chip in CHIPS:
        file = HERE / f"library-{chip}.json"
        if file.exists():
            found[chip] = {row["operator"]: row for row in json.loads(file.read_text(encoding="utf-8"))["times"]}
    return found


def ascend(found: dict[str, dict[str, Any]]) -> Iterator[str]:
    """The table of predicted times on Ascend, with the limit of the chip beside each."""
    if not found:
        return
    yield "\n## Predicted on Ascend\n"
    yield "Times at the size *model*, by `pypto lib bench --platform CHIP`; no chip has measured them. The limit is the"
    yield "longer of two times: of the operator's bytes at the rate of the chip's memory, with nothing in L2, and of"
    yield "its operations at the rate of the cube cores. What stays in L2 can take less than the limit: results on the"
    yield "way to HBM, and what one launch of a call writes for the next. A launch takes 3 µs before it begins."
    yield "Operators without a kernel for Ascend have the code of the error.\n"
    yield "| operator | " + " | ".join(f"{chip}, µs | limit, µs | part of it" for chip in found) + " |"
    yield "|---|" + "---|---|---|" * len(found)
    for name in dict.fromkeys(name for rows_of in found.values() for name in rows_of):
        yield f"| {name} | " + " | ".join(prediction(rows_of.get(name, {})) for rows_of in found.values()) + " |"


def prediction(row: dict[str, Any]) -> str:
    """The cells of an operator and a chip; a refusal says its code."""
    if not isinstance(row.get("predicted"), float):
        return f"{row.get('limits', '·').split(']')[0].removeprefix('refused: [')} | · | ·"
    return f"{1e3 * row['predicted']:.3g} | {1e3 * row['limit']:.3g}, {row['bound']} | {row['of limit']}"


def text() -> str:
    """The page."""
    lines = [HEAD, *speeds(measured()), *ascend(predictions())]
    for family, members in rows.families().items():
        lines.append(f"\n## {family.replace('_', ' ').capitalize()}")
        for row in members:
            lines += section(row)
    return "\n".join(lines) + "\n"


def main() -> None:
    PAGE.write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
