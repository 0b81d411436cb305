"""Predicted times of launches, by the timing model: of a launch, and of the first programs on one core."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pypto.backends.ascend.blockir.ir import BlockKernel
from pypto.backends.ascend.pipeline import lower_to_text
from pypto.backends.ascend.target import AscendTarget
from pypto.backends.ascend.timing.l2 import NOTHING
from pypto.backends.ascend.timing.prediction import Prediction, predict
from pypto.backends.base import ElementNumber, SlotNumber
from pypto.ir.core import Function

PROGRAMS: Final = 4  # that a timeline shows, one after the other on a core


def predict_launch(
    optimized: Function,
    target: AscendTarget,
    number: SlotNumber,
    sizes: tuple[int, int, int],
    element: ElementNumber | None = None,
    since: Mapping[str, float] = NOTHING,
) -> Prediction:
    """How long a launch takes; `since` are arrays that L2 may have, with the bytes that came into it after them."""
    block, _ = lower_to_text(optimized, target)
    args = {param.name: slot.arg for param, slot in zip(block.params, block.slots, strict=False) if param.is_array}

    def read(array: str, index: int) -> int | None:
        return element(args[array], index) if element is not None and array in args else None

    later = {param: since[arg] for param, arg in args.items() if arg in since}
    return predict(block, target, parameter_values(block, number), sizes, read=read, since=later)


def predict_core(block: BlockKernel, target: AscendTarget, number: SlotNumber) -> Prediction:
    """How long the first programs of a launch take on one core."""
    return predict(block, target, parameter_values(block, number), (PROGRAMS, 1, 1), blocks=1)


def parameter_values(block: BlockKernel, number: SlotNumber) -> dict[str, int]:
    """Values of the integers among the parameters of a kernel."""
    found = {param.name: number(slot) for param, slot in zip(block.params, block.slots, strict=False)}
    return {name: value for name, value in found.items() if value is not None}
