"""`pto.verify` of an adjoint compares a handwritten backward pass with the derived one, or derived with interpreted."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from pypto.debug.verify import TOLERANCE, Compared, Verified, spacing
from pypto.errors.gradients import AdjointDiffers
from pypto.markup import Shown
from pypto.process import interpreter
from pypto.runtime.arrays import array_info
from pypto.runtime.launch import check_grid

if TYPE_CHECKING:
    from pypto.gradients.kernel import AdjointKernel

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class AdjointVerifier(Shown):
    """Computes the gradients of an adjoint twice, and compares them."""

    adjoint: AdjointKernel
    atol: float | None
    rtol: float | None

    def __str__(self) -> str:
        return f"verify({self.adjoint!r}): launch it as verify(…)[grid](arguments…, d_…) to compare the gradients"

    def __getitem__(self, grid: Any) -> Callable[..., Verified]:
        return partial(self.launch, grid)

    def launch(self, grid: Any, /, *args: Any, **given: Any) -> Verified:
        """Computes the gradients, and compares them. Afterwards the arrays hold those of the adjoint as it is launched.

        Raises
        ------
        AdjointDiffers
            With the first element that differs by more than is allowed.
        """
        adjoint = self.adjoint
        names = [f"d_{n}" for n in adjoint.wrt]
        before = {n: np.array(given[n], copy=True) for n in names}  # in place, what is read
        adjoint[grid](*args, **given)
        results = {n: np.array(given[n], copy=True) for n in names}
        reference = {**given, **before}
        by_hand = adjoint.by_hand
        if by_hand is not None:
            adjoint.derived()[grid](*args, **reference)
        else:
            with interpreter():
                adjoint[grid](*args, **reference)
        compared = tuple(self.compare(n, results[n], reference[n], by_hand) for n in names)
        values = adjoint.kernel._bind(args, adjoint.split(given)[0])
        programs = math.prod(check_grid(grid, adjoint.kernel.signature, values))
        kernel = adjoint.kernel.signature.kernel
        return VerifiedAdjoint(by_hand or f"adjoint of {kernel}", programs, compared, by_hand is not None)

    def compare(self, name: str, got: Array, expected: Array, by_hand: str | None) -> Compared:
        """Compares one gradient with its reference."""
        info = array_info(expected, "", name)
        assert info is not None
        usual = TOLERANCE[info.dtype.bits]
        a, b = got.astype(np.float64), expected.astype(np.float64)
        rtol = usual if self.rtol is None else self.rtol
        atol = usual * np.max(np.abs(b), initial=0.0, where=np.isfinite(b)) if self.atol is None else self.atol
        with np.errstate(invalid="ignore"):
            distance = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0, np.abs(a - b))
            far = ~(distance <= atol + rtol * np.where(np.isfinite(b), np.abs(b), 0))
        if far.any():
            place = tuple(map(int, np.argwhere(far)[0]))
            raise AdjointDiffers(
                adjoint=by_hand or "the compiled adjoint",
                kernel=self.adjoint.kernel.signature.kernel,
                array=name,
                index=", ".join(map(str, place)),
                got=got[place],
                expected=expected[place],
                how="derived" if by_hand else "interpreted",
                count=int(far.sum()),
                total=far.size,
            )
        ulp = float(np.max(distance / spacing(b, info.dtype), initial=0.0))
        return Compared(name, got.size, float(np.max(distance, initial=0.0)), ulp)


@dataclass(frozen=True, slots=True)
class VerifiedAdjoint(Verified):
    """The result of comparing an adjoint."""

    is_by_hand: bool

    def __str__(self) -> str:
        first, *others = Verified.__str__(self).split("\n")
        how = "by hand as derived" if self.is_by_hand else "compiled as interpreted"
        return "\n".join([first.replace("compiled as interpreted", how), *others])
