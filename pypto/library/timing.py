"""How long an operator takes: here, beside torch, and by the model of an Ascend chip."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from pypto.backends.registry import plugin_for_target
from pypto.library.residency import Written
from pypto.library.row import MODEL, Operator, Values
from pypto.runtime.mode import mode
from pypto.testing.bench import Comparison, compare


@dataclass(frozen=True, slots=True)
class Predicted:
    """The launches of one call on a chip.

    Attributes
    ----------
    launches : tuple of Prediction
        In the order in which they run.
    memory, cube : float
        Seconds that the operator's bytes take at the rate of the chip's memory, if nothing is in L2, and that its
        operations take at the rate of the cube cores. Of an operator without products on them, `cube` is 0.
    seconds : float
        The sum of the launches.
    used : float
        The part of that time in which the busiest unit of a launch works, or its memory.
    """

    launches: tuple[Any, ...]
    memory: float
    cube: float

    @property
    def limit(self) -> float:
        """The greater of `memory` and `cube`, in seconds; what stays in L2 can take less."""
        return max(self.memory, self.cube)

    @property
    def bound(self) -> str:
        """Which of both it is."""
        return "memory" if self.memory >= self.cube else "cube"

    @property
    def seconds(self) -> float:
        return float(sum(launch.seconds for launch in self.launches))

    @property
    def used(self) -> float:
        return sum(float(launch.seconds) * busiest(launch) for launch in self.launches) / self.seconds


def busiest(launch: Any) -> float:
    """The part of a launch's time in which its busiest unit works, or its memory."""
    return float(max(*launch.utilisation.values(), launch.memory_cycles / launch.cycles))


def cube_seconds(launches: list[Any], operations: float) -> float:
    """Seconds that operations take on cube cores, in the dtypes that the launches' products have."""
    rooflines = [launch.roofline for launch in launches]
    made = [(n, n / line.peaks[dtype]) for line in rooflines for dtype, n in line.operations.items()]
    total = sum(n for n, _ in made)
    return operations * sum(seconds for _, seconds in made) / total if total else 0.0


def tensors(torch: Any, values: Values) -> SimpleNamespace:
    """Arguments as torch tensors, by name, on memory of their own."""
    return SimpleNamespace(**{name: tensor(torch, value) for name, value in values.items()})


def tensor(torch: Any, value: Any) -> Any:
    """A numpy array as a tensor; numbers and None as they are."""
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype.kind != "V" and not value.dtype.name.startswith(("bfloat", "float8")):
        return torch.from_numpy(value.copy())
    bits = {1: np.uint8, 2: np.int16}[value.dtype.itemsize]  # numpy's own dtypes lack these
    return torch.from_numpy(value.view(bits).copy()).view(getattr(torch, value.dtype.name))


def for_peer(torch: Any, row: Operator, values: Values) -> SimpleNamespace:
    """All arguments of a row's peer, by name, with what it prepares of them."""
    given = tensors(torch, row.arguments(values))
    return SimpleNamespace(**vars(given), **(row.prepared(torch, given) if row.prepared else {}))


def contenders(row: Operator, case: str, dtype: str = "", seed: int = 0) -> dict[str, Callable[[], Any]]:
    """Functions without arguments, by name: ours, and those of torch where it is installed."""
    values = row.sample(np.random.default_rng(seed), case, dtype)
    try:
        import torch
    except ImportError:
        return {"pypto": lambda: row(**values)}
    given = tensors(torch, values)
    found: dict[str, Callable[[], Any]] = {"pypto": lambda: row(**vars(given))}
    if row.peer is not None:
        peer, theirs = row.peer, for_peer(torch, row, values)
        found["torch"] = lambda: peer(torch, theirs)
    return found


def race(row: Operator, case: str = MODEL, dtype: str = "", rep: float = 200) -> Comparison:
    """Time an operator and torch in turns, on the arguments of a size.

    Parameters
    ----------
    row : Operator
    case : str
        A size of the row.
    dtype : str
        Of the first array.
    rep : float
        Milliseconds for each.
    """
    return compare(contenders(row, case, dtype), rep)


@contextmanager
def predictions(chip: str) -> Iterator[list[Any]]:
    """Launches are predicted for a chip, and run here.

    Numbers that they write decide about the time of later ones, which may find results in L2.
    """
    from pypto.debug.simulate import predicted_launch

    found: list[Any] = []
    written = Written()

    def watch(kernel: Any, sizes: Any, values: Any, _interpret: bool) -> None:
        found.append(predicted_launch(kernel, sizes, values, chip, written.arguments(kernel, values)))
        written.add(kernel, values, found[-1])
        kernel.execute(sizes, values)

    with mode(watch=watch):
        yield found


def predict(row: Operator, chip: str = "ascend910b2", case: str = MODEL, dtype: str = "") -> Predicted:
    """Predict an operator's time on a chip that need not be there.

    Parameters
    ----------
    row : Operator
    chip : str
        As for `pypto.simulate`.
    case : str
        A size of the row.
    dtype : str
        Of the first array.
    """
    values = row.sample(np.random.default_rng(0), case, dtype)
    bound = row.bind((), values)
    run = row.implementation(plugin_for_target(chip), bound.dtype).run
    with predictions(chip) as launches:
        run(**bound.values, **row.outputs(bound))
    dims = SimpleNamespace(**row.sizes.get(case, bound.dims))
    operations = row.flops(dims) if row.flops is not None else 0.0
    memory = row.moved(dims) / launches[0].roofline.peaks["memory"]
    return Predicted(tuple(launches), memory, cube_seconds(launches, operations))
