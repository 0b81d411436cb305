"""Random programs on arrays, fused and in plain numpy: `python -m tests.graph.compare_programs 1000`.

Each is called twice, the second time with other values and attributes. It prints how many agree, how many are refused
and why, and the text of those that differ. What raises an error in numpy is drawn again.
"""

from __future__ import annotations

import argparse
import copy
import time
import warnings
from collections import Counter
from typing import Any

import numpy as np

import pypto as pto
from pypto.errors import Diagnostic
from tests.graph.random_loops import defined
from tests.graph.random_programs import N, Program, State


def arguments(program: Program, call: int) -> tuple[Any, ...]:
    """Return the arguments of a call: multiples of a half, or small integers."""
    rng = np.random.default_rng((program.seed, call))
    scale = 2 if program.is_float else 1
    low = 0 if program.dtype == "uint8" else -6
    x, y, w, m = (
        (rng.integers(low * scale, 7 * scale, shape) / scale).astype(program.dtype) for shape in (N, N, N, (N, N))
    )
    number = (0.5 if program.is_float else 1) + call
    return State(w, number + 1, 3 - call), x, y, m, number


def different(wanted: Any, found: Any) -> str:
    """Return what differs, or nothing; a bounded number has the type of the number or of its bound."""
    a, b = np.asarray(wanted), np.asarray(found)
    if isinstance(wanted, np.ndarray) and (a.dtype != b.dtype or a.shape != b.shape):
        return f"{a.dtype}{a.shape} is {b.dtype}{b.shape}"
    is_same = np.allclose(a.astype(float), b.astype(float), rtol=1e-5, atol=1e-6, equal_nan=True)
    return "" if is_same else f"{a.tolist()} is {b.tolist()}"


def called(function: Any, args: tuple[Any, ...]) -> list[Any]:
    """Return the results of a call, and its arguments after it."""
    results = list(function(*args))
    return [*results, *args[1:4], args[0].w]


def outcome(seed: int) -> tuple[str, str, str]:
    """Return what became of a program (`agrees`, `refused`, `differs` or `invalid`), why, and its text."""
    program = Program(seed)
    text = program.text()
    function = defined(text, seed)
    fused = pto.fuse(function)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for call in range(2):
            args = arguments(program, call)
            try:
                wanted = called(function, copy.deepcopy(args))
            except Exception as error:
                return "invalid", type(error).__name__, text
            try:
                found = called(fused, args)
            except Diagnostic as error:
                return "refused", f"{error.code} {str(error).splitlines()[0]}"[:110], text
            except Exception as error:
                return "differs", f"call {call}: {type(error).__name__}: {error}", text
            for number, (a, b) in enumerate(zip(wanted, found, strict=True)):
                problem = different(a, b)
                if problem:
                    return "differs", f"call {call}, value {number}: {problem}", text
    return "agrees", "", text


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("count", type=int)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    kinds: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    examples: dict[str, int] = {}
    for seed in range(options.first, options.first + options.count):
        kind, reason, text = outcome(seed)
        kinds[kind] += 1
        if kind in ("refused", "invalid"):
            reasons[reason] += 1
            examples.setdefault(reason, seed)
        if kind == "differs":
            print(f"--- {seed}: {reason}\n{text}", flush=True)
    print(dict(kinds), f"{time.process_time():.0f} s of CPU", sep="\n")
    for reason, count in reasons.most_common(25):
        print(f"{count:5}  {reason} (as {examples[reason]})")


if __name__ == "__main__":
    main()
