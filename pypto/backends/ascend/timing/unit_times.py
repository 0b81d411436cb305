"""The times of units of L0C: when a product with `unitFlag` and the way out of L0C may touch the same accumulator.

A unit is 512 bytes. The last product of a sum fills one after the other, and a Fixpipe takes each once it is full. The
next product writes each once it has been taken. So neither begins before the other one's first unit is done, nor ends
before the last one is. Both go through the units in one order, which `SetMMLayoutTransform` sees to.

    M    | last product of a block |        | first product of the next one      |
    FIX        | one unit behind, then at its own pace                         |
"""

from __future__ import annotations

from typing import Any, Final

from pypto.backends.ascend.blockir.effects import unit_flag_index, views
from pypto.backends.ascend.blockir.ir import Instr

UNIT_BYTES: Final = 512
_COMPLETES: Final = 3  # `unitFlag` of the last product of a sum, and of its Fixpipe


def flag_of(instr: Instr, numbers: tuple[Any, ...]) -> int:
    """The flag of an instruction whose arguments are known; 0 for all but products and ways out of L0C."""
    return int(numbers[-1][unit_flag_index(instr)] or 0) if instr.name in ("Mmad", "Fixpipe") else 0


def interval(
    instr: Instr, numbers: tuple[Any, ...], start: float, busy: float, times: dict[str, float]
) -> tuple[float, float]:
    """When an instruction begins and ends that could begin at `start`; `times` are updated.

    `times` says for each unit of the core and each accumulator when the other one may begin, and when it may end.
    """
    flag = flag_of(instr, numbers)
    if not flag:
        return start, start + busy
    is_product = instr.name == "Mmad"
    operand = 0 if is_product else 1
    name = f"{views(instr)[operand].of.name} {numbers[operand][0]}"
    other, mine = ("taken", "filled") if is_product else ("filled", "taken")
    first, second = (int(x or 0) for x in numbers[-1][:2])
    each = busy / max(1, first * second * 4 // UNIT_BYTES)
    start = max(start, times.get(f"{other} from {name}", 0.0))
    end = max(start + busy, times.get(f"{other} until {name}", 0.0) + each)
    if flag == _COMPLETES:
        times[f"{mine} from {name}"] = start + each
        times[f"{mine} until {name}"] = end
    return start, end
