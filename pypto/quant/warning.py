"""`warn` attributes a warning to the line of the user's program that asked for the work."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from types import FrameType

from pypto._platform import PACKAGE
from pypto.errors.base import PyptoWarning


def warn(warning: PyptoWarning) -> None:
    """Warns at the innermost line that is neither of this package nor of a decorator."""
    level = 2
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith((PACKAGE + os.sep, contextlib.__file__)):
        frame = frame.f_back
        level += 1
    warnings.warn(warning, stacklevel=level)
