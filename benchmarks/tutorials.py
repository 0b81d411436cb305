"""Our side of the rows: kernels and helpers out of the tutorials, whose file names are no module names."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from benchmarks.runner import Missing

FOLDER: Final = Path(__file__).resolve().parent.parent / "tutorials"


def load_tutorial(name: str) -> ModuleType:
    """Execute ``tutorials/NAME.py`` as a fresh module, whose kernels have compiled nothing yet.

    Raises
    ------
    FileNotFoundError
        If there is no such tutorial.
    """
    path = FOLDER / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"tutorial_{name}", path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise FileNotFoundError(f"there is no tutorial {path}")
    allow_helpers()
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def allow_helpers() -> None:
    """Tutorials import their helpers (`minilm`) as a script in their folder does."""
    if str(FOLDER) not in sys.path:
        sys.path.insert(0, str(FOLDER))


def ours(name: str, function: str) -> Callable[..., Any] | Missing:
    """The helper `function` of a tutorial, or Missing with the reason."""
    try:
        found: Callable[..., Any] = getattr(load_tutorial(name), function)
    except Exception as problem:  # whatever stops a tutorial from loading, the row has to say so and the run go on
        return Missing(f"tutorials/{name}.py: {type(problem).__name__}: {problem}")
    return found
