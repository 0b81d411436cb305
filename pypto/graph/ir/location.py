"""Source locations: finds the user's line of a node, and reports errors at that line."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Final, TypeVar

import numpy as np

from pypto.errors.graph import WrongShapes
from pypto.loc import Caller

T = TypeVar("T")
_ROOMS: Final = ("graph", "arrays", "jit", "runtime")  # of ours that a call goes through
_OURS: Final = (*(str(Path(__file__).parents[2] / room) for room in _ROOMS), str(Path(np.__file__).parent))
_STANDARD: Final = ("<frozen ", sysconfig.get_paths()["stdlib"])


def here() -> Caller:
    """Return the innermost call outside of this package, numpy and the standard library."""
    frame = sys._getframe(1)
    while is_ours(frame.f_code.co_filename) and frame.f_back is not None:
        frame = frame.f_back
    return Caller.of(frame)


@lru_cache(maxsize=1024)
def is_ours(file: str) -> bool:
    """Whether a file belongs to the graph compiler, the array functions, numpy or the standard library."""
    return file.startswith(_OURS) or (file.startswith(_STANDARD) and "site-packages" not in file)


def checked(what: str, make: Callable[[], T]) -> T:
    """Return the result of `make`, and turn the TypeError of a type rule into an error at the user's line."""
    try:
        return make()
    except TypeError as error:
        if type(error) is not TypeError:
            raise
        raise WrongShapes(here().loc(), what=what, problem=str(error)) from None
