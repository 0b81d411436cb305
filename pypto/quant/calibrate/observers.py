"""Observers summarise the inputs of a layer in bounded memory: ranges, a histogram, a sample and the Gram matrix."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from pypto.markup.summary import Summary
from pypto.quant.arrays import Array, check_columns, check_finite
from pypto.quant.rounding import grid
from pypto.quant.schemes import Scheme

BINS: Final = 2048
ROWS: Final = 256  # rows that a sample has at least, if so many were seen
PART: Final = 1024  # rows whose magnitudes are in memory at the same time
GOLDEN: Final = 2654435769  # 2^32 over the golden ratio: multiples of it are spread evenly modulo 2^32


@dataclass(slots=True, repr=False)
class Histogram(Summary):
    """Counts magnitudes in bins of equal width; the width doubles for a larger number, so counts stay exact."""

    counts: Array = field(default_factory=lambda: np.zeros(BINS, np.int64))
    top: float = 0.0

    def add(self, magnitudes: Array) -> None:
        """Counts numbers that are not negative."""
        most = float(magnitudes.max(initial=0))
        if most > 0 and self.top == 0:
            self.top = float(np.exp2(np.ceil(np.log2(most))))
        while most > self.top:
            self.counts = np.concatenate([self.counts.reshape(-1, 2).sum(1), np.zeros(BINS // 2, np.int64)])
            self.top *= 2
        places = np.minimum(magnitudes * (BINS / self.top), BINS - 1) if self.top else np.zeros(magnitudes.shape)
        self.counts += np.bincount(places.astype(np.int64).ravel(), minlength=BINS)

    def percentile(self, percent: float) -> float:
        """Returns the end of the first bin below which this percentage of the numbers lies."""
        total = np.cumsum(self.counts)
        place = int(np.searchsorted(total, total[-1] * (percent / 100)))
        return (min(place, BINS - 1) + 1) * self.top / BINS


@dataclass(slots=True, repr=False)
class Sample(Summary):
    """Samples rows by their positions alone: evenly spread, and not in phase with any period."""

    columns: int
    rows: Array = None
    places: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    seen: int = 0
    below: int = 1 << 32

    def __post_init__(self) -> None:
        self.rows = np.zeros((0, self.columns), np.float32)

    def add(self, x: Array) -> None:
        """Adds rows; if there are twice too many, half of them are dropped before they are copied."""
        places = np.concatenate([self.places, np.arange(self.seen, self.seen + len(x), dtype=np.int64)])
        chosen = self.chosen(places)
        while chosen.sum() >= 2 * ROWS:
            self.below //= 2
            chosen = self.chosen(places)
        retained, new = np.split(chosen, [len(self.places)])
        self.rows = np.concatenate([self.rows[retained], x[new].astype(np.float32)])
        self.places = places[chosen]
        self.seen += len(x)

    def chosen(self, places: Array) -> Array:
        """Says which rows, by position, belong to the sample."""
        return (places.astype(np.uint64) * np.uint64(GOLDEN)) % np.uint64(1 << 32) < self.below

    def scaled(self, factors: Array) -> Sample:
        """Returns the sample of ``inputs * factors``."""
        sample = Sample(self.columns, places=self.places, seen=self.seen, below=self.below)
        sample.rows = (self.rows * factors).astype(np.float32)
        return sample


@dataclass(slots=True, repr=False)
class Products(Summary):
    """Caches the Gram matrix of the last inputs for several layers that share them."""

    inputs: bytes = b""  # digest of the inputs: a copy of the widest inputs would be as large as the Gram matrix
    product: Array = None

    def gram(self, x: Array) -> Array:
        """Returns ``x.T @ x``, computed again if x differs from the last inputs."""
        digest = hashlib.blake2b(f"{x.dtype.name} {x.shape}".encode())
        digest.update(np.ascontiguousarray(x).reshape(-1).view(np.uint8).data)
        if digest.digest() != self.inputs:
            self.product = None
            self.product = x.T @ x
            self.inputs = digest.digest()
        return self.product


@dataclass(slots=True, repr=False)
class Statistics(Summary):
    """Statistics of a layer's inputs over all calibration data.

    Parameters
    ----------
    layer : str
        The name of the layer, for errors.
    columns : int
        The number of the layer's inputs.
    with_gram : bool
        Whether the Gram matrix, which has columns² numbers, is summed.
    with_histogram : bool
        Whether magnitudes are counted, for percentiles.

    Attributes
    ----------
    rows : int
        The number of rows that were observed.
    low, high : ndarray of shape (columns,), float64
        The least and the largest number of each column; 0 before any data.
    magnitude : ndarray of shape (columns,), float64
        Sums of absolute values of the columns.
    gram : ndarray of shape (columns, columns), float64, or None
        The sum of ``x.T @ x`` over all rows.
    histogram : Histogram
        The histogram of the absolute values of all inputs.
    sample : Sample
        A sample of the inputs, ``sample.rows``: at most 511 rows, which do not depend on the split into batches.

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
    with_histogram: bool = True
    rows: int = 0
    low: Array = None
    high: Array = None
    magnitude: Array = None
    gram: Array = None
    histogram: Histogram = field(default_factory=Histogram)
    sample: Sample = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        self.sample = self.sample or Sample(self.columns)
        self.low = np.zeros(self.columns)
        self.high = np.zeros(self.columns)
        self.magnitude = np.zeros(self.columns)
        self.gram = np.zeros((self.columns, self.columns)) if self.with_gram else None

    def add(self, inputs: Array, products: Products | None = None) -> None:
        """Adds inputs of shape (…, columns).

        Parameters
        ----------
        inputs : ndarray
            The inputs. Products of float32 are summed in float32 within a batch, and in float64 over all batches.
        products : Products, optional
            Shares the Gram matrix of a batch with other layers that have the same inputs.

        Raises
        ------
        WrongCalibration
            If the inputs have another number of columns.
        NotFinite
            If the inputs contain NaN or infinity; nothing is added then.
        """
        x = np.asarray(inputs)
        check_columns(self.layer, x, self.columns)
        x = x.astype(np.result_type(x.dtype, np.float32), copy=False).reshape(-1, self.columns)
        check_finite(self.layer, "its input", x)
        self.rows += len(x)
        self.low = np.minimum(self.low, x.min(axis=0, initial=0))
        self.high = np.maximum(self.high, x.max(axis=0, initial=0))
        for start in range(0, len(x), PART):
            magnitudes = np.abs(x[start : start + PART])
            self.magnitude += magnitudes.sum(axis=0, dtype=np.float64)
            if self.with_histogram:
                self.histogram.add(magnitudes.astype(np.float64, copy=False))
        self.sample.add(x)
        if self.gram is not None:
            self.gram += (products or Products()).gram(x)

    @property
    def mean_magnitude(self) -> Array:
        """The mean absolute value of each column."""
        return self.magnitude / max(self.rows, 1)

    @property
    def largest(self) -> Array:
        """The largest absolute value of each column."""
        return np.maximum(self.high, -self.low)

    def scaled(self, factors: Array) -> Statistics:
        """Returns the statistics of ``inputs * factors`` for factors above 0; the histogram becomes a bound."""
        largest = float(np.max(factors, initial=0))
        histogram = Histogram(self.histogram.counts, self.histogram.top * largest)
        statistics = Statistics(self.layer, self.columns, False, self.with_histogram, self.rows, histogram=histogram)
        statistics.sample = self.sample.scaled(factors)
        statistics.low = self.low * factors
        statistics.high = self.high * factors
        statistics.magnitude = self.magnitude * factors
        statistics.gram = None if self.gram is None else self.gram * factors[:, None] * factors
        return statistics

    def static_grid(self, scheme: Scheme) -> tuple[Array, Array | None]:
        """Computes one scale, and zero point, for all inputs from the range that the scheme's observer gives."""
        low, high = float(self.low.min(initial=0)), float(self.high.max(initial=0))
        if scheme.observer == "percentile":
            bound = self.histogram.percentile(scheme.percentile)
            low = max(low, -bound)
            high = min(high, bound)
        return grid(np.array([low]), np.array([high]), scheme)
