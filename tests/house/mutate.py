"""Mutation testing: plants faults in the compiler, one at a time, and says which of them the tests find.

Each fault changes one operator, comparison, constant or condition in a copy of the checkout. The tests then run in it
until the first failure. Faults depend on the seed alone, so that two sets of tests can be compared::

    python -m tests.house.mutate --count 30 --seed 0
    python -m tests.house.mutate --count 30 --seed 0 -- -m "not exhaustive"
    python -m tests.house.mutate --count 30 --seed 0 --first 11 --last 15 --near

The arguments behind ``--`` go to pytest; by default they are those of `make test`. With ``--near``, only tests that are
named like the file with the fault run, and those of its folder: what they find is found in seconds.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tests.house.measure import python_files, relative
from tests.patience import limit

ROOT: Final = Path(__file__).resolve().parents[2]
PLACES: Final = ("pypto/passes", "pypto/backends/cpu", "pypto/frontend", "pypto/ops")
DEFAULT: Final = ("-n", "2", "--dist", "worksteal", "-m", "not slow")
SELECTION: Final = ("-m", "not slow")
FOLDERS: Final = (
    ("pypto/passes", ("tests/passes",)),
    ("pypto/backends/cpu", ("tests/backends_cpu",)),
    ("pypto/frontend", ("tests/frontend", "tests/language")),
    ("pypto/ops", ("tests/ops",)),
)
LIMIT: Final = 1800  # seconds for one fault; a kernel that runs forever is found by this
COMPARISONS: Final[dict[type[ast.cmpop], str]] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.Is: "is not",
    ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
OPERATORS: Final[dict[type[ast.operator], str]] = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.FloorDiv: "*", ast.Mod: "//", ast.LShift: ">>", ast.RShift: "<<",
}  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """A change of one expression in a file: the text from one offset to another becomes another text."""

    file: str
    line: int
    start: int
    end: int
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: `{self.old}` becomes `{self.new}`"

    def plant(self, folder: Path) -> None:
        path = folder / self.file
        data = path.read_bytes()
        path.write_bytes(data[: self.start] + self.new.encode() + data[self.end :])


def changes(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Expressions that may be replaced, each with a text that means something else."""
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            yield node, f"{ast.unparse(left)} {COMPARISONS[type(op)]} {ast.unparse(right)}"
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS and not has_text(node):
            yield node, f"({ast.unparse(left)} {OPERATORS[type(op)]} {ast.unparse(right)})"
        case ast.BoolOp(op=op, values=values):
            word = " or " if isinstance(op, ast.And) else " and "
            yield node, "(" + word.join(f"({ast.unparse(value)})" for value in values) + ")"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield node, f"bool({ast.unparse(operand)})"
        case ast.Constant(value=value) if type(value) is int:
            yield node, str(value + 1)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield node, f"({ast.unparse(orelse)} if {ast.unparse(test)} else {ast.unparse(body)})"


def has_text(node: ast.AST) -> bool:
    """True where an operator may be one of texts or sequences, for which others do not exist."""
    return any(
        isinstance(n, ast.JoinedStr | ast.List | ast.Tuple)
        or (isinstance(n, ast.Constant) and isinstance(n.value, str))
        for n in ast.walk(node)
    )


def is_type(node: ast.AST) -> bool:
    """True for a part of a tree that says nothing about what runs: annotations and module constants for types."""
    return isinstance(node, ast.arg | ast.AnnAssign)


def bodies(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes inside of functions, but for annotations and text that is put together."""
    for function in (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)):
        pending: list[ast.AST] = list(function.body)
        while pending:
            node = pending.pop()
            if isinstance(node, ast.FunctionDef | ast.JoinedStr | ast.Raise | ast.Assert) or is_type(node):
                continue
            yield node
            pending += ast.iter_child_nodes(node)


@cache
def faults(places: tuple[str, ...] = PLACES) -> tuple[Fault, ...]:
    """Every fault that can be planted, in order of files and places."""
    found = []
    for path in python_files(*places):
        text = path.read_bytes()
        starts = [0]
        for line in text.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        for node in bodies(ast.parse(text)):
            for part, new in changes(node):
                assert isinstance(part, ast.expr)
                assert part.end_lineno is not None
                assert part.end_col_offset is not None
                start, end = (
                    starts[part.lineno - 1] + part.col_offset,
                    starts[part.end_lineno - 1] + part.end_col_offset,
                )
                old = re.sub(r"\s+", " ", text[start:end].decode())
                found.append(Fault(relative(path), part.lineno, start, end, old, new))
    return tuple(sorted(set(found), key=lambda f: (f.file, f.start, f.end, f.new)))


def chosen(count: int, seed: int) -> list[Fault]:
    """So many faults, as many from each place as can be, the same ones for equal seeds."""
    rng, found = random.Random(seed), faults()
    by_place = [[f for f in found if f.file.startswith(place)] for place in PLACES]
    return [rng.choice(by_place[n % len(by_place)]) for n in range(count)]


def checkout(folder: Path) -> None:
    """A copy of all files that belong to the repository."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)


def found_by(fault: Fault, arguments: Sequence[str]) -> str:
    """The first test that fails with a fault in the package; empty where all pass."""
    with tempfile.TemporaryDirectory(prefix="pypto-mutant-") as name:
        folder = Path(name)
        checkout(folder)
        fault.plant(folder)
        code = f"import sys; sys.path.insert(0, {name!r}); import pytest; sys.exit(pytest.main(sys.argv[1:]))"
        command = [sys.executable, "-c", code, "-q", "-x", "-p", "no:cacheprovider", *arguments]
        environment = {**os.environ, "PYTHONPATH": name}
        try:
            done = subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, text=True, timeout=limit(LIMIT), check=False
            )
        except subprocess.TimeoutExpired:
            return "the limit of time"
        if done.returncode == 0:
            return ""
        failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
        return failed[1] if failed else (done.stdout + done.stderr).strip().splitlines()[-1]


def near(file: str) -> list[str]:
    """Tests that may know a file: first those whose names have most words of its name, then those of its folder."""
    words = {*Path(file).stem.split("_")}
    tests = sorted(relative(path) for path in (ROOT / "tests").rglob("test_*.py"))
    known = {test: len(words & {*Path(test).stem.split("_")}) for test in tests}
    folders = [folder for place, folders in FOLDERS if file.startswith(place) for folder in folders]
    return [*sorted(filter(known.__getitem__, tests), key=lambda test: -known[test]), *folders]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=1, help="number of the first fault that is tried")
    parser.add_argument("--last", type=int, default=10**6, help="number of the last one")
    parser.add_argument("--near", action="store_true", help="run only the tests that are near to the fault")
    parser.add_argument("--list", action="store_true", help="only say what the faults are")
    parser.add_argument("arguments", nargs="*", help="of pytest")
    options = parser.parse_args()
    numbered = [*enumerate(chosen(options.count, options.seed), start=1)]
    tried = [(number, fault) for number, fault in numbered if options.first <= number <= options.last]
    survived = 0
    for number, fault in tried:
        if options.list:
            print(f"{number:3} {fault}")
            continue
        begin = time.monotonic()
        arguments = options.arguments or (SELECTION if options.near else DEFAULT)
        test = found_by(fault, [*arguments, *(near(fault.file) if options.near else ())])
        survived += not test
        print(f"{number:3} {fault}\n      {time.monotonic() - begin:.0f} s: {test or 'SURVIVED'}", flush=True)
    if not options.list:
        print(f"{len(tried) - survived} of {len(tried)} faults found")
    return 0


if __name__ == "__main__":
    sys.exit(main())
