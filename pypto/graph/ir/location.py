"""The user's line that asks for a node, and errors at that line."""

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
    """The innermost call that is neither of this room nor of numpy nor of Python's own library."""
    frame = sys._getframe(1)
    while is_ours(frame.f_code.co_filename) and frame.f_back is not None:
        frame = frame.f_back
    return Caller.of(frame)


@lru_cache(maxsize=1024)
def is_ours(file: str) -> bool:
    """Whether a file is of this room, of the array functions, of numpy, or of Python's own library."""
    return file.startswith(_OURS) or (file.startswith(_STANDARD) and "site-packages" not in file)


def checked(what: str, make: Callable[[], T]) -> T:
    """What `make` gives; a type rule's objection becomes an error at the user's line."""
    try:
        return make()
    except TypeError as error:
        if type(error) is not TypeError:
            raise
        raise WrongShapes(here().loc(), what=what, problem=str(error)) from None
