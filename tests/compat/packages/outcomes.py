"""What became of packages' entry points: ``python -m tests.compat.packages.outcomes [a package or a module…]``.

It writes ``docs/triton-packages.json``, which the page for users shows and the tests hold to what happens. A run may be
for some packages alone: what the file says of the others stays. Environments differ in what their packages ask for, so
none has to have them all.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Final
from unittest.mock import patch

import torch

from pypto.compat.triton.kernels import JITFunction
from tests.compat.packages import (
    fla_ops,
    gems_ops,
    hub_kernels,
    liger_functions,
    liger_models,
    model_steps,
    sglang_ops,
    unsloth_ops,
    vllm_attention,
    vllm_batches,
    vllm_layers,
    vllm_quantised,
    vllm_sampling,
    vllm_states,
)
from tests.compat.packages.agreement import Check

FILE: Final = Path(__file__).parents[3] / "docs" / "triton-packages.json"
MODULES: Final = (
    *(fla_ops, model_steps, liger_functions, liger_models, gems_ops, sglang_ops, unsloth_ops, hub_kernels),
    *(vllm_sampling, vllm_batches, vllm_states, vllm_attention, vllm_layers, vllm_quantised),
)
RIGHT: Final = "right"


def checks(module: ModuleType) -> dict[str, Check]:
    """The entry points of all tables of a module."""
    tables = [x for name, x in vars(module).items() if name.isupper() and isinstance(x, Mapping)]
    return {name: check for table in tables for name, check in table.items() if callable(check)}


def version(module: ModuleType) -> str | None:
    try:
        return importlib.metadata.version(module.PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        return None


@contextmanager
def launches() -> Iterator[list[str]]:
    """Names of the kernels that are launched within a `with` block."""
    names: list[str] = []
    run = JITFunction.run

    def noted(self: JITFunction, *args: Any, **given: Any) -> Any:
        names.append(self.__name__)
        return run(self, *args, **given)

    with patch.object(JITFunction, "run", noted):
        yield names


def where(error: Exception) -> str:
    """The line that raised an error, for one without a message."""
    return traceback.extract_tb(error.__traceback__)[-1].line or ""


def outcome(check: Check) -> tuple[str, int]:
    """`RIGHT`, or what went wrong, and how many kernels were launched."""
    torch.manual_seed(0)
    with launches() as names:
        try:
            check()
        except Exception as error:
            lines = str(error).strip().splitlines() or [where(error)]
            return f"{type(error).__name__}: {lines[0]}", len(names)
    return (RIGHT if names else "no kernel was launched"), len(names)


def record(module: ModuleType) -> dict[str, Any]:
    """What the file holds of a module's entry points."""
    results = {}
    for name, check in checks(module).items():
        start = time.process_time()
        result, count = outcome(check)
        print(f"{module.PACKAGE} {name}: {result}, {count} launches, {time.process_time() - start:.1f} s", flush=True)
        results[name] = result
    return {"package": module.PACKAGE, "version": version(module), "results": results}


def main(*packages: str) -> None:
    kept = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    for module in MODULES:
        name = module.__name__.rpartition(".")[2]
        if version(module) is not None and (not packages or {module.PACKAGE, name} & {*packages}):
            kept[name] = record(module)
    FILE.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
