"""pypto: a kernel language in Python for CPUs and Ascend NPUs."""

from __future__ import annotations

from pypto._platform import check_platform

check_platform()

from pypto import language  # noqa: E402  # an unsupported machine should hear of it before anything fails
from pypto.jit import Kernel, get_num_threads, interpret, interpreter, jit, set_num_threads  # noqa: E402
from pypto.language import *  # noqa: E402, F403
from pypto.language import __all__ as _names  # noqa: E402

__all__ = ["Kernel", "get_num_threads", "interpret", "interpreter", "jit", "language", "set_num_threads", *_names]
