"""Loads tutorials, whose file names are no module names."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Final

FOLDER: Final = Path(__file__).resolve().parent.parent / "tutorials"


def load_tutorial(name: str) -> ModuleType:
    """Execute ``tutorials/NAME.py`` as a fresh module, whose kernels have compiled nothing yet.

    Raises
    ------
    FileNotFoundError
        If there is no such tutorial.
    """
    path = FOLDER / f"{name}.py"
    if not path.is_file():
        raise FileNotFoundError(f"there is no {path.name} in {FOLDER}")
    spec = importlib.util.spec_from_file_location(f"tutorial_{name}", path)
    assert spec is not None, path
    assert spec.loader is not None, path
    allow_helpers()
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module


def allow_helpers() -> None:
    """Lets `minilm` be imported, which the tutorials find beside them when they run as scripts."""
    if str(FOLDER) not in sys.path:
        sys.path.insert(0, str(FOLDER))
