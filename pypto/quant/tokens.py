"""Numbers of tokens and positions, checked against the tables whose rows they name."""

from __future__ import annotations

from pypto.errors.quant import WrongCalibration
from pypto.quant.weight import Array


def check_range(what: str, numbers: Array, count: int) -> None:
    """Refuse numbers of rows that a table of so many rows has not.

    Raises
    ------
    WrongCalibration
        With the first such number.
    """
    beyond = numbers[(numbers < 0) | (numbers >= count)]
    if len(beyond):
        raise WrongCalibration(
            what=f"there is {what} {beyond[0]}, and the model has {count}", way=f"give {what}s from 0 to {count - 1}"
        )
