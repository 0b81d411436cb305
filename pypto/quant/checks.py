"""Checks refuse arguments that a model cannot use, with an error that names the argument and the valid ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase

from pypto.errors.quant import NoSuchLayer, WrongCalibration
from pypto.options import suggestion
from pypto.quant.arrays import Array

SHOWN = 6  # names that an error lists


def check_range(what: str, numbers: Array, count: int) -> None:
    """Refuses row numbers outside of a table.

    Raises
    ------
    WrongCalibration
        If there is such a number.
    """
    beyond = numbers[(numbers < 0) | (numbers >= count)]
    if len(beyond):
        raise WrongCalibration(
            what=f"there is {what} {beyond[0]}, and the model has {count}", way=f"give {what}s from 0 to {count - 1}"
        )


def check_layers(given: Iterable[str], known: Collection[str]) -> None:
    """Refuses names of layers that a model does not have.

    Raises
    ------
    NoSuchLayer
        With the first such name.
    """
    for name in given:
        if name not in known:
            refuse(f"the model has no layer {name}", name, known)


def check_patterns(patterns: Iterable[str], known: Collection[str]) -> None:
    """Refuses patterns that match no name.

    Raises
    ------
    NoSuchLayer
        With the first such pattern.
    """
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in known):
            refuse(f"the pattern {pattern!r} in `skip` matches no layer", pattern, known)


def refuse(what: str, name: str, known: Collection[str]) -> None:
    raise NoSuchLayer(what=what, suggestion=suggestion(name, tuple(known)), known=listed(known))


def listed(names: Collection[str]) -> str:
    """Lists the first names, and counts the others."""
    shown = ", ".join(list(names)[:SHOWN])
    return f"{shown} and {len(names) - SHOWN} more" if len(names) > SHOWN else shown or "none"
