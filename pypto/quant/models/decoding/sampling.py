"""Sampling chooses the next token from the logits: the most probable one, or a draw from the softmax."""

from __future__ import annotations

import math

import numpy as np

from pypto.errors.quant import WrongCalibration
from pypto.quant.arrays import Array, check_finite


def check_draw(temperature: float, top: int) -> None:
    """Refuses invalid sampling options."""
    if not 0 <= temperature < math.inf:
        raise WrongCalibration(what=f"the temperature is {temperature}", way="give 0, or a finite number above it")
    if top < 0:
        raise WrongCalibration(what=f"`top` is {top}", way="give a number of tokens, or 0 for all of them")


def choose(logits: Array, temperature: float, top: int, rng: np.random.Generator) -> int:
    """Returns the token with the largest logit (temperature 0), or a sample from the softmax of the `top` largest.

    Raises
    ------
    NotFinite
        If logits have NaN or infinity.

    Examples
    --------
    >>> logits = np.array([0.0, 3.0, 2.9], np.float32)
    >>> choose(logits, 0.0, 0, np.random.default_rng(0))
    1
    >>> [choose(logits, 1.0, 2, rng) for rng in [np.random.default_rng(3)] for _ in range(6)]
    [1, 1, 2, 2, 1, 1]
    """
    check_finite("head", "its output", logits)
    if temperature == 0:
        return int(logits.argmax())
    candidates = np.arange(len(logits)) if not 0 < top < len(logits) else np.sort(np.argpartition(logits, -top)[-top:])
    weights = logits[candidates].astype(np.float64) / temperature
    totals = np.exp(weights - weights.max()).cumsum()
    return int(candidates[np.searchsorted(totals, rng.random() * totals[-1], side="right")])
