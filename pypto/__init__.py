"""pypto: a kernel language in Python for CPUs and Ascend NPUs."""

from __future__ import annotations

import warnings

from pypto._platform import cann_conflict, check_platform

check_platform()  # an unsupported machine should hear of it before anything fails

from pypto import language
from pypto.errors import PyptoWarning
from pypto.jit import Kernel, get_num_threads, interpret, interpreter, jit, set_num_threads
from pypto.language import *  # noqa: F403
from pypto.language import __all__ as _names
from pypto.profiler import profile
from pypto.tuning import heuristics

if (_conflict := cann_conflict()) is not None:
    warnings.warn(_conflict, PyptoWarning, stacklevel=2)

# fmt: off
__all__ = [  # noqa: PLE0604
    "Kernel", "get_num_threads", "heuristics", "interpret", "interpreter", "jit", "language", "profile",
    "set_num_threads",
    *_names,
]
