"""The suite `arrays`: programs of numpy, unchanged, under `pto.fuse`, in numpy, and numba and jax."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np

import pypto as pto
from benchmarks.numpy_programs import PROGRAMS, Program
from benchmarks.program_peers import jax_program, numba_program
from benchmarks.runner import Bar, Case, Impl, Missing, Row, Suite
from pypto.graph.tracing.arguments import leaves


def first(result: Any) -> Any:
    """Of several results the first."""
    return result[0] if isinstance(result, tuple) else result


def program_case(program: Program, large: bool) -> Case:
    """A program on its arguments; the reference is numpy in the program's own types, since some count and compare."""
    given = program.arguments(large)
    fused = pto.fuse(program.function)
    numpy = partial(program.function, *given)
    peers: dict[str, Impl | Missing] = {
        "numpy": lambda: first(numpy()),
        "numba": numba_program(program.function, given, first),
        "jax": jax_program(program.function, given, first),
    }
    return Case(lambda: first(fused(*given)), peers, lambda: first(numpy()))


def moved(program: Program) -> float:
    """Bytes of a program's arguments: what has to be read at least."""
    return float(sum(x.nbytes for _, x in leaves(program.arguments(False)) if isinstance(x, np.ndarray)))


def row(program: Program) -> Row:
    build = partial(program_case, program, True)
    return Row(program.name, "", moved(program), "B", "", 2e-3, build, (Bar("numpy", 1.0),), (0,))


ARRAYS: Final = Suite("arrays", tuple(map(row, PROGRAMS)))
