"""Times of an operator: measured here beside torch, or predicted by the model of an Ascend chip."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from pypto.backends.registry import plugin_for_target
from pypto.compile import session
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
        The launches in the order in which they run.
    memory, cube : float
        Seconds that the operator's bytes take at the memory's bandwidth if nothing is in L2, and that its operations
        take at the rate of the cube cores. `cube` is 0 for an operator without products on them.
    seconds : float
        The sum of the launches.
    used : float
        The fraction of that time in which each launch's busiest unit, or its memory, works.
    """

    launches: tuple[Any, ...]
    memory: float
    cube: float

    @property
    def limit(self) -> float:
        """The greater of `memory` and `cube`, in seconds; a call can be faster if data stays in L2."""
        return max(self.memory, self.cube)

    @property
    def bound(self) -> str:
        """Says which of the two limits is greater."""
        return "memory" if self.memory >= self.cube else "cube"

    @property
    def seconds(self) -> float:
        return float(sum(launch.seconds for launch in self.launches))

    @property
    def used(self) -> float:
        return sum(float(launch.seconds) * busiest(launch) for launch in self.launches) / self.seconds


def busiest(launch: Any) -> float:
    """Returns the fraction of a launch's time in which its busiest unit, or its memory, works."""
    return float(max(*launch.utilisation.values(), launch.memory_cycles / launch.cycles))


def cube_seconds(launches: list[Any], operations: float) -> float:
    """Returns the seconds that operations take on cube cores, in the dtypes of the launches' products."""
    rooflines = [launch.roofline for launch in launches]
    per_dtype = [(n, n / line.peaks[dtype]) for line in rooflines for dtype, n in line.operations.items()]
    total = sum(n for n, _ in per_dtype)
    return operations * sum(seconds for _, seconds in per_dtype) / total if total else 0.0


def tensors(torch: Any, values: Values) -> SimpleNamespace:
    """Copies arguments to torch tensors, by name."""
    return SimpleNamespace(**{name: tensor(torch, value) for name, value in values.items()})


def tensor(torch: Any, value: Any) -> Any:
    """Copies a numpy array to a tensor; numbers and None stay as they are."""
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype.kind != "V" and not value.dtype.name.startswith(("bfloat", "float8")):
        return torch.from_numpy(value.copy())
    bits = {1: np.uint8, 2: np.int16}[value.dtype.itemsize]  # numpy's own dtypes lack these
    return torch.from_numpy(value.view(bits).copy()).view(getattr(torch, value.dtype.name))


def for_peer(torch: Any, row: Operator, values: Values) -> SimpleNamespace:
    """Returns all arguments of a row's peer by name, with the tensors that it prepares."""
    given = tensors(torch, row.arguments(values))
    return SimpleNamespace(**vars(given), **(row.prepared(torch, given) if row.prepared else {}))


def contenders(row: Operator, case: str, dtype: str = "", seed: int = 0) -> dict[str, Callable[[], Any]]:
    """Returns functions without arguments by name: ours, and torch's if it is installed."""
    values = row.sample(np.random.default_rng(seed), case, dtype)
    try:
        import torch
    except ImportError:
        return {"pypto": lambda: row(**values)}
    given = tensors(torch, values)
    contenders_by_name: dict[str, Callable[[], Any]] = {"pypto": lambda: row(**vars(given))}
    if row.peer is not None:
        peer, theirs = row.peer, for_peer(torch, row, values)
        contenders_by_name["torch"] = lambda: peer(torch, theirs)
    return contenders_by_name


def race(row: Operator, case: str = MODEL, dtype: str = "", rep: float = 200) -> Comparison:
    """Times an operator and torch in turns, with arguments of one size.

    Parameters
    ----------
    row : Operator
    case : str
        A size of the row.
    dtype : str
        The dtype of the first array.
    rep : float
        Milliseconds that each of them runs.
    """
    return compare(contenders(row, case, dtype), rep)


@contextmanager
def predictions(chip: str) -> Iterator[list[Any]]:
    """Predicts each launch for a chip, and runs it here.

    The launches have to run, because the time of later ones depends on the numbers that they write. A later launch may
    find results in L2.
    """
    from pypto.debug.simulate import predicted_launch

    predicted: list[Any] = []
    written = Written()

    def watch(kernel: Any, sizes: Any, values: Any, _interpret: bool) -> None:
        predicted.append(predicted_launch(kernel, sizes, values, chip, written.arguments(kernel, values)))
        written.add(kernel, values, predicted[-1])
        with mode(watch=None, device=None):
            kernel.execute(sizes, values)

    with mode(watch=watch, device=session().devices.chip(chip)):  # grids follow `pto.target` of the chip
        yield predicted


def predict(row: Operator, chip: str = "ascend910b2", case: str = MODEL, dtype: str = "") -> Predicted:
    """Predicts an operator's time on a chip that need not be present.

    Parameters
    ----------
    row : Operator
    chip : str
        A name as in `pypto.simulate`.
    case : str
        A size of the row.
    dtype : str
        The dtype of the first array.
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
