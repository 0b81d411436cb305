"""Compares random kernels of matrix products with the interpreter, and shrinks each that differs.

``python -m tests.conformance.random_matrices --count 1000 --first 0`` tries the kernels of so many seeds.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import pypto as pto
from pypto.errors import Diagnostic
from tests.conformance.matrices import Maker, Program
from tests.conformance.sources import define
from tests.conftest import ALL_LEVELS

EACH = 100  # programs between two lines of a report


def outputs(kernel: Any, program: Program) -> list[Any]:
    """All arrays after a launch; inputs may be written, too."""
    arrays = program.arrays()
    kernel[program.programs](*arrays, program.n)
    return arrays


def difference(program: Program, levels: Sequence[str]) -> str:
    """Why a kernel is wrong at one of these levels; empty where it is not."""
    wanted = outputs(pto.interpret(define(program.text)), program)
    for level in levels:
        try:
            found = outputs(define(program.text, level), program)
        except Exception as error:  # whatever it is: the interpreter has run the same kernel
            return f"{level or 'host'}: {type(error).__name__}: {str(error)[:500]}"
        for n, (a, b) in enumerate(zip(found, wanted, strict=True)):
            if text := apart(a, b, program.tolerance):
                return f"{level or 'host'}: array {n} {text}"
    return ""


def apart(found: Any, wanted: Any, tolerance: float) -> str:
    """How far arrays are apart, where that is too far; NaN is, where it is not wanted. What overflows is no test."""
    if not np.isfinite(wanted.astype(np.float64)).all():
        return ""
    size = float(np.abs(wanted.astype(np.float64)).max(initial=0.0))
    off = np.abs(found.astype(np.float64) - wanted.astype(np.float64)).max(initial=0.0)
    return "" if off <= tolerance * max(1.0, size) else f"is {off:.3g} off, of numbers up to {size:.3g}"


def shrunk(program: Program, fails: Callable[[Program], bool]) -> Program:
    """The program with as few lines as still fail."""
    smaller = True
    while smaller:
        smaller = False
        lines = program.text.splitlines()
        for size in (4, 2, 1):
            for start in range(2, len(lines) - size + 1):
                text = "\n".join([*lines[:start], *lines[start + size :], ""])
                candidate = replace(program, text=text)
                if still(candidate, fails):
                    program, smaller = candidate, True
                    break
            if smaller:
                break
    return program


def still(program: Program, fails: Callable[[Program], bool]) -> bool:
    try:
        return fails(program)
    except (Diagnostic, SyntaxError):  # a name that is no more, or a block without lines
        return False


def check(seed: int, levels: Sequence[str]) -> str:
    """What is wrong with the kernel of a seed, shrunk; empty where nothing is."""
    program = Maker(seed).program()
    text = difference(program, levels)
    if not text:
        return ""
    small = shrunk(program, lambda p: bool(difference(p, levels)))
    arrays = "\n".join(map(str, [*small.inputs, *small.outputs]))
    return (f"--- seed {seed}: {text}\n{small.text}n = {small.n}, programs = {small.programs}, stack = {small.stack}\n"
            f"{arrays}\n{difference(small, levels)}")  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--in-turns", action="store_true", help="one level for each")
    parser.add_argument("--levels", default=",".join(ALL_LEVELS), help="separated by commas; empty is the host's")
    options = parser.parse_args()
    levels, failed = options.levels.split(","), 0
    for n, seed in enumerate(range(options.first, options.first + options.count), start=1):
        text = check(seed, [levels[seed % len(levels)]] if options.in_turns else levels)
        if text:
            failed += 1
            print(text, flush=True)
        if n % EACH == 0:
            print(f"{n} programs, up to seed {seed}: {failed} differ", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
