"""Predicted times: a chip's timing model replaces measurements on a simulated chip or without the chip."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pypto.runtime.device_arrays import DeviceArray
from pypto.runtime.mode import MODE, mode
from pypto.tuning.launching import Launchable

PREDICTED: Final = ", predicted"  # behind a chip's name: times are those of its model


def chip_of(named: Mapping[str, Any]) -> str:
    """Return the chip of a launch, or an empty string for the CPU, and whether its timing model gives the times."""
    from pypto.compile import session

    of_arrays = next((x.device for x in named.values() if isinstance(x, DeviceArray)), None)
    place = of_arrays or MODE.get().device or session().devices.default
    target = getattr(getattr(place, "backend", None), "target", None)
    return "" if target is None else target.name + ("" if place.tells_time else PREDICTED)


def predicted(kernel: Launchable, args: tuple[Any, ...], kwargs: dict[str, Any], chip: str) -> float:
    """Predict the milliseconds of a launch on a chip, without running it."""
    from pypto.debug.simulate import predicted_launch

    seconds: list[float] = []

    def watch(inner: Any, sizes: tuple[int, int, int], values: tuple[Any, ...], _: bool) -> None:
        seconds.append(predicted_launch(inner, sizes, values, chip.removesuffix(PREDICTED)).seconds)

    with mode(watch=watch):
        kernel.run(*args, **kwargs)
    return 1e3 * sum(seconds)
