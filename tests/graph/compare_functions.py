"""Runs random functions fused and in numpy, in several processes: `python -m tests.graph.compare_functions 1000`.

It prints how many agree, how many are refused and why, and the text of those that differ.
"""

from __future__ import annotations

import argparse
import importlib.util
import linecache
import os
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import pypto as pto
import pypto.arrays as pt
from pypto.errors import Diagnostic
from pypto.errors.launch import UnsupportedArgument
from tests.graph.random_functions import EPS, FLOATS, NAMES, Function, values_of

REFUSALS = ("E302", "E341", "E342", "E343", "E344", "E345", "E346", "E354")


@dataclass(frozen=True)
class Outcome:
    """What became of a function: `agrees`, `refused` or `differs`, and why."""

    seed: int
    kind: str
    reason: str = ""
    text: str = ""


def defined(function: Function) -> Any:
    """The function of a text, which the tracer finds through `linecache`."""
    text, file = function.text(), f"<random function {function.seed}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names = {**NAMES, "state": function.state}
    exec(compile(text, file, "exec"), names)
    return names["function"]


def computed(function: Function, noise: Any = None) -> list[Any]:
    """What numpy computes, statement by statement; with noise after each one that is not exact."""
    names = {**NAMES, "state": function.state, **{f"a{n}": x for n, x in enumerate(function.arrays)}}
    with np.errstate(all="ignore"):
        for statement in function.statements:
            exec(statement.reference, names)
            value = np.asarray(names[statement.name])
            if noise is not None and not statement.exact and str(value.dtype) in FLOATS:
                error = noise.uniform(-1, 1, value.shape) * EPS[str(value.dtype)]
                names[statement.name] = (value.astype(np.float64) * (1 + error)).astype(value.dtype)
    values = [names[name] for name in function.results]
    return [x if isinstance(x, np.ndarray | np.generic) else np.asarray(x) for x in values]


def difference(function: Function, found: list[Any], strict: bool = True) -> str:
    """What differs between the results of a fused function and numpy's, or nothing.

    Numbers of numpy are tensors without dimensions where `strict` is not set.
    """
    wanted = computed(function)
    exact = {s.name: s.exact for s in function.statements}
    noisy = [computed(function, np.random.default_rng(n)) for n in range(6)]
    for n, (name, given, b) in enumerate(zip(function.results, found, wanted, strict=True)):
        if strict and isinstance(given, np.ndarray) != isinstance(b, np.ndarray):
            return f"{name} is a {type(given).__name__}, not a {type(b).__name__}"
        a = np.asarray(given)
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            return f"{name} is {a.dtype}{a.shape}, not {b.dtype}{b.shape}"
        if str(b.dtype) not in FLOATS:
            if not np.array_equal(a, b):
                return f"{name} is {a.tolist()}, not {b.tolist()}"
            continue
        x, y = a.astype(np.float64), b.astype(np.float64)
        with np.errstate(all="ignore"):
            carried = np.max(
                [np.nan_to_num(np.abs(each[n].astype(np.float64) - y), nan=np.inf) for each in noisy], axis=0
            )
            size = np.max(np.abs(y), where=np.isfinite(y), initial=0.0)
            allowed = 0 if exact[name] else 8 * carried + 4 * EPS[str(b.dtype)] * (np.abs(y) + size / 8)
            near = (np.abs(x - y) <= allowed) | (x == y) | (np.isnan(x) & np.isnan(y))
        if not np.all(near | ~np.isfinite(np.broadcast_to(allowed, y.shape))):
            return f"{name} is {a.tolist()}, not {b.tolist()}"
    return ""


def fused_of(function: Function) -> Any:
    """The function under `pto.fuse`, with its dimensions by name."""
    n = pt.Dim("n", 1, 4096)
    dims = {name: tuple(n if size else None for size in shape) for name, shape in function.dims.items()}
    return pto.fuse(defined(function), **({"dims": dims} if dims else {}))


def outcome(seed: int, calls: int = 2) -> Outcome:
    """Draw a function, fuse it, and compare it with numpy; then again with other attributes and other sizes."""
    function = Function(seed).drawn()
    text = function.text()
    if not function.statements:
        return Outcome(seed, "agrees")
    fused = fused_of(function)
    for call in range(calls):
        if call:
            changed(function)
        try:
            computed(function)
        except (ValueError, TypeError, IndexError, OverflowError, ZeroDivisionError):
            break  # numpy does not take the other values
        try:
            problem = foreign_problem(function, fused) or difference(function, fused(*function.arrays))
        except Diagnostic as error:
            if error.code in REFUSALS:
                return Outcome(seed, "refused", reason(error), text)
            problem = f"{error}"
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        if problem:
            return Outcome(seed, "differs", f"call {call}, dims {function.dims}: {problem}", text)
        if "state." not in text and not function.dims:
            break
    return Outcome(seed, "agrees")


def elsewhere(kind: str, array: Any) -> Any:
    """An array as a tensor of torch or on the simulated device; None where there is no torch."""
    if kind == "device":
        return pto.to_device(array, "ascend-sim")
    if importlib.util.find_spec("torch") is None:
        return None
    import torch

    if str(array.dtype) == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def tensors_problem(function: Function, fused: Any) -> str:
    """What differs if all arguments are tensors of torch, or nothing; a bfloat16 has torch's rule for numbers there."""
    tensors = [elsewhere("torch", x) for x in function.arrays]
    if not tensors or tensors[0] is None or any(str(t.dtype) == "bfloat16" for t in function.terms):
        return ""
    return difference(function, [x.numpy() if hasattr(x, "numpy") else x for x in fused(*tensors)], strict=False)


def foreign_problem(function: Function, fused: Any) -> str:
    """What is wrong with the refusal of an argument that is no array of numpy, or nothing."""
    if function.foreign == "torch":
        return tensors_problem(function, fused)
    value = elsewhere(function.foreign, function.arrays[0]) if function.foreign else None
    if value is None or (function.foreign == "device" and len(function.arrays) == 1):
        return ""  # alone, an array on a device is taken
    what = "an array on the device Device(ascend-sim)"
    try:
        fused(value, *function.arrays[1:])
    except UnsupportedArgument as error:
        return "" if error.code == "E302" and f"argument `a0` is {what}" in str(error) else f"{error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return f"{what} was taken"


def changed(function: Function) -> None:
    """Other values of attributes, and other sizes of dimensions by name."""
    function.state.scale, function.state.shift = -function.state.scale, function.state.shift + 2
    rng = np.random.default_rng(function.seed + 1)
    for name, shape in function.dims.items():
        old = function.arrays[int(name[1:])]
        sizes = tuple(size + 3 if named else size for size, named in zip(old.shape, shape, strict=True))
        function.arrays[int(name[1:])] = values_of(rng, str(old.dtype), sizes)


def reason(error: Diagnostic) -> str:
    """The first line of a refusal without numbers of its own."""
    first = str(error).split("\n")[0]
    return "".join("N" if c.isdigit() else c for c in first[:7]).replace("ENNN", error.code) + first[7:90]


def outcomes(first: int, count: int, processes: int, calls: int = 2) -> list[Outcome]:
    seeds = range(first, first + count)
    run = partial(outcome, calls=calls)
    if processes == 1:
        return [run(seed) for seed in seeds]
    with ProcessPoolExecutor(processes) as pool:
        return list(pool.map(run, seeds, chunksize=20))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--show", type=int, default=10, help="how many that differ are printed")
    parser.add_argument("--calls", type=int, default=2, help="with other values of attributes each time")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    found = outcomes(given.seed, given.count, given.processes, given.calls)
    differing = [o for o in found if o.kind == "differs"]
    for o in differing[: given.show]:
        print(f"--- seed {o.seed}: {o.reason[:1500]}\n{o.text}")
    counts = Counter(o.kind for o in found)
    print(", ".join(f"{counts[kind]} {kind}" for kind in ("agrees", "refused", "differs")))
    for why, number in Counter(o.reason for o in found if o.kind == "refused").most_common():
        print(f"{number:5}  {why}")
    return 1 if differing else 0


if __name__ == "__main__":
    raise SystemExit(main())
