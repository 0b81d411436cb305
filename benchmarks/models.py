"""``python -m benchmarks.models [NAME…]``: whole models under torch.compile, as a table of Markdown.

Ours stands beside eager torch and Inductor's C++, on the models of the tests, in inference on one thread. All are
called in turns, and a ratio is that of median times. Compile times are those of the first call in a process of its own,
without anything in a cache and then with everything; ``--compile`` says of which models.
"""

from __future__ import annotations

import argparse
import copy
import importlib
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import chain
from typing import Any, Final

from benchmarks.levels import caches
from benchmarks.peers import quiet

_CALLS: Final = 2000  # of an implementation, at most
_SECONDS: Final = 3.0  # of one implementation
_TURN: Final = 4  # calls that are measured in a turn
_FALLBACK: Final = re.compile(r"extern_kernels\.(\w+)\(|torch\.ops\.aten\.(\w+)\.")
_TIMED: Final = ("mlp", "bert", "gpt2", "llama", "resnet", "diffusion")
HEAD: Final = (
    "| model | as eager | as C++ | kernels | left to ATen | compiled in s | from the cache |\n" + "|---" * 7 + "|"
)


def models() -> dict[str, Callable[[], Any]]:
    """The models of the tests by name; each gives a module and its inputs."""
    found = (importlib.import_module(f"tests.torch.models_{kind}").MODELS for kind in ("language", "vision"))
    return {name: make for part in found for name, make in part.items()}


def compiled(model: Any, which: str) -> Any:
    """A copy of a model, compiled with our backend ("ours") or by Inductor ("theirs")."""
    torch: Any = importlib.import_module("torch")
    backend = "inductor"
    if which == "ours":
        backend = importlib.import_module("pypto.torch.inductor.backend").pypto_inductor
    return torch.compile(copy.deepcopy(model), backend=backend, dynamic=False)


def prepared(name: str) -> tuple[Any, Any]:
    """A model and its inputs, on one thread."""
    torch: Any = importlib.import_module("torch")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model, inputs = models()[name]()
    return model.eval(), inputs


def seconds(run: Callable[[], Any], times: int) -> float:
    start = time.perf_counter()
    for _ in range(times):
        run()
    return (time.perf_counter() - start) / times


def turn(run: Callable[[], Any]) -> list[float]:
    """Seconds of some calls, behind one that fills caches. Turns are short, so that what else runs meets all alike."""
    run()
    return [seconds(run, 1) for _ in range(_TURN)]


def speeds(name: str) -> tuple[float, float, Any]:
    """How many times as fast ours is as eager torch and as the C++, and our compiled model."""
    torch: Any = importlib.import_module("torch")
    torch.compiler.reset()
    model, inputs = prepared(name)
    with torch.no_grad(), quiet():
        ours, theirs = compiled(model, "ours"), compiled(model, "theirs")
        torch.testing.assert_close(ours(*inputs), model(*inputs), rtol=1e-4, atol=1e-5)
        runs = [lambda f=f: f(*inputs) for f in (ours, model, theirs)]
        for run in runs:
            seconds(run, 20)
        calls = max(50, min(_CALLS, int(_SECONDS / seconds(runs[0], 3))))
        rounds = [[turn(run) for run in runs] for _ in range(calls // _TURN)]
    mine, eager, cpp = (statistics.median(chain.from_iterable(times)) for times in zip(*rounds, strict=True))
    return eager / mine, cpp / mine, ours


def left_to_aten(before: int) -> str:
    """The operators that generated code calls by name, of the modules that came after so many others."""
    loaded = importlib.import_module("torch._inductor.codecache").PyCodeCache.modules[before:]
    ours = [module for module in loaded if "pypto.torch.inductor.load" in text_of(module)]
    names = {a or b for module in ours for a, b in _FALLBACK.findall(text_of(module))}
    return ", ".join(sorted(name.strip("_") for name in names)) or "nothing"


def text_of(module: Any) -> str:
    """The code of a module without lines of comments."""
    with open(module.__file__, encoding="utf-8") as file:
        return "".join(line for line in file if not line.lstrip().startswith("#"))


def first_call(name: str, which: str) -> float:
    """Seconds of the first call of a compiled model in this process."""
    torch: Any = importlib.import_module("torch")
    model, inputs = prepared(name)
    importlib.import_module("torch._inductor.compile_fx")
    with torch.no_grad(), quiet():
        torch.compile(lambda x: x + 1, backend="eager")(torch.ones(3))
        start = time.perf_counter()
        compiled(model, which)(*inputs)
        return time.perf_counter() - start


def compile_times(name: str) -> dict[str, tuple[float, float]]:
    """Seconds without a cache and from it, of ours and of the C++."""
    told: dict[str, tuple[float, float]] = {}
    for which in ("ours", "theirs"):
        with tempfile.TemporaryDirectory() as folder:
            caches = {"TORCHINDUCTOR_CACHE_DIR": f"{folder}/torch", "PYPTO_CACHE_DIR": f"{folder}/pypto"}
            command = [sys.executable, "-W", "ignore", "-m", "benchmarks.models", "--first-call", which, name]
            cold, cached = (
                float(subprocess.run(command, env={**os.environ, **caches}, capture_output=True, check=True).stdout)
                for _ in range(2)
            )
            told[which] = cold, cached
    return told


def row(name: str, timed: bool) -> tuple[str, float]:
    """A line of the table, and how many times as fast as the C++."""
    loaded = importlib.import_module("torch._inductor.codecache").PyCodeCache.modules
    before = len(loaded)
    eager, cpp, ours = speeds(name)
    kernels = len(importlib.import_module("pypto.torch").kernels(ours))
    cells = ["", ""]
    if timed:
        mine, theirs = compile_times(name).values()
        cells = [f"{a:.1f}, C++ {b:.1f}" for a, b in zip(mine, theirs, strict=True)]
    shown = (name, f"{eager:.2f}", f"{cpp:.2f}", str(kernels), left_to_aten(before), *cells)
    return f"| {' | '.join(shown)} |", cpp


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--compile", default=",".join(_TIMED), help="models whose compile times are measured")
    parser.add_argument("--first-call", choices=("ours", "theirs"), help="print seconds of this process alone")
    given = parser.parse_args()
    if given.first_call:
        print(first_call(given.names[0], given.first_call))
        return
    os.environ.update(caches(""))  # before torch is loaded
    print(HEAD)
    ratios = []
    for name in given.names or models():
        line, ratio = row(name, name in given.compile.split(","))
        print(line, flush=True)
        ratios.append(ratio)
    print(f"\ngeometric mean {math.exp(statistics.fmean(map(math.log, ratios))):.2f} of the C++")


if __name__ == "__main__":
    main()
