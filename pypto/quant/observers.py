"""What a calibration knows of a layer's inputs, gathered batch by batch in memory that does not grow."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from pypto.quant.schemes import Scheme
from pypto.quant.weight import check_finite, grid

Array = Any
BINS: Final = 2048


@dataclass(slots=True)
class Histogram:
    """Magnitudes in bins of one width, which doubles when a larger number comes: counts stay exact."""

    counts: Array = field(default_factory=lambda: np.zeros(BINS, np.int64))
    top: float = 0.0

    def add(self, magnitudes: Array) -> None:
        """Count numbers that are not negative."""
        most = float(magnitudes.max(initial=0))
        if most > 0 and self.top == 0:
            self.top = float(np.exp2(np.ceil(np.log2(most))))
        while most > self.top:
            self.counts = np.concatenate([self.counts.reshape(-1, 2).sum(1), np.zeros(BINS // 2, np.int64)])
            self.top *= 2
        places = np.minimum(magnitudes * (BINS / self.top), BINS - 1) if self.top else np.zeros(magnitudes.shape)
        self.counts += np.bincount(places.astype(np.int64).ravel(), minlength=BINS)

    def percentile(self, percent: float) -> float:
        """The end of the first bin up to which so many percent of the numbers are."""
        total = np.cumsum(self.counts)
        place = int(np.searchsorted(total, total[-1] * (percent / 100)))
        return (min(place, BINS - 1) + 1) * self.top / BINS


@dataclass(slots=True)
class Statistics:
    """Statistics of a layer's inputs over all calibration data.

    Parameters
    ----------
    layer : str
        Its name, for errors.
    columns : int
        Inputs of the layer.
    with_gram : bool
        Whether the Gram matrix is summed, which has columns² numbers.

    Attributes
    ----------
    rows : int
        Inputs that were seen.
    low, high : ndarray of shape (columns,), float64
        The least and the largest number of each column; 0 before any was seen.
    magnitude : ndarray of shape (columns,), float64
        Sums of absolute values of the columns.
    gram : ndarray of shape (columns, columns), float64, or None
        The sum of ``x.T @ x`` over all rows.
    histogram : Histogram
        Of the absolute values of all inputs.

    Examples
    --------
    >>> s = Statistics("up", 2)
    >>> s.add(np.array([[1.0, -2.0], [3.0, 0.0]]))
    >>> s.mean_magnitude.tolist(), s.gram.tolist()
    ([2.0, 1.0], [[10.0, -2.0], [-2.0, 4.0]])
    """

    layer: str
    columns: int
    with_gram: bool = True
    rows: int = 0
    low: Array = None
    high: Array = None
    magnitude: Array = None
    gram: Array = None
    histogram: Histogram = field(default_factory=Histogram)

    def __post_init__(self) -> None:
        self.low = np.zeros(self.columns)
        self.high = np.zeros(self.columns)
        self.magnitude = np.zeros(self.columns)
        self.gram = np.zeros((self.columns, self.columns)) if self.with_gram else None

    def add(self, inputs: Array) -> None:
        """Add inputs of shape (…, columns).

        Raises
        ------
        NotFinite
            If they have NaN or infinity; nothing was added then.
        """
        x = np.asarray(inputs, np.float64).reshape(-1, self.columns)
        check_finite(self.layer, "its input", x)
        magnitudes = np.abs(x)
        self.rows += len(x)
        self.low = np.minimum(self.low, x.min(axis=0, initial=0))
        self.high = np.maximum(self.high, x.max(axis=0, initial=0))
        self.magnitude += magnitudes.sum(axis=0)
        self.histogram.add(magnitudes)
        if self.gram is not None:
            self.gram += x.T @ x

    @property
    def mean_magnitude(self) -> Array:
        """The mean absolute value of each column."""
        return self.magnitude / max(self.rows, 1)

    @property
    def largest(self) -> Array:
        """The largest absolute value of each column."""
        return np.maximum(self.high, -self.low)

    def scaled(self, factors: Array) -> Statistics:
        """Those of ``inputs * factors``, with factors above 0; the histogram, which has no columns, becomes a bound."""
        largest = float(np.max(factors, initial=0))
        histogram = Histogram(self.histogram.counts, self.histogram.top * largest)
        found = Statistics(self.layer, self.columns, False, self.rows, histogram=histogram)
        found.low = self.low * factors
        found.high = self.high * factors
        found.magnitude = self.magnitude * factors
        found.gram = None if self.gram is None else self.gram * factors[:, None] * factors
        return found

    def static_grid(self, scheme: Scheme) -> tuple[Array, Array | None]:
        """One scale, and zero point, for all inputs, from their range as the scheme's observer sees it."""
        low, high = float(self.low.min(initial=0)), float(self.high.max(initial=0))
        if scheme.observer == "percentile":
            bound = self.histogram.percentile(scheme.percentile)
            low = max(low, -bound)
            high = min(high, bound)
        return grid(np.array([low]), np.array([high]), scheme)
