"""Runs in a process that compiles kernels for another one; it does not need torch. See `ahead.py`."""

from __future__ import annotations

import pickle
import sys
from contextlib import suppress
from typing import IO

from pypto.errors import PyptoError
from pypto.ir.parser import parse_function
from pypto.torch.inductor.jobs import Job, put_code


def work(source: IO[bytes] | None = None) -> None:
    """Compiles the jobs of standard input until it ends.

    It reports no error: the launch of the kernel compiles it too, and raises that error.
    """
    stream = source or sys.stdin.buffer
    with suppress(EOFError):
        while True:
            job: Job = pickle.load(stream)
            with suppress(PyptoError):
                put_code(parse_function(job.text), job.options)
