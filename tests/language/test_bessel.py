"""Bessel functions of float64: values of tables, and Wronski's relation over all ranges of the method."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import pypto as pto

# At 0.01, 1, 10 and 100, as Abramowitz and Stegun's chapter 9 defines them.
AT = np.array([0.01, 1.0, 10.0, 100.0])
J0 = [0.9999750001562496, 0.7651976865579666, -0.2459357644513483, 0.01998585030422312]
J1 = [0.004999937500260416, 0.4400505857449335, 0.04347274616886144, -0.07714535201411216]
Y0 = [-3.005455637083646, 0.08825696421567697, 0.05567116728359939, -0.07724431336508315]
Y1 = [-63.67859628206064, -0.7812128213002887, 0.2490154242069539, -0.02037231200275932]


@pto.jit
def orders(x: Any, first: Any, second: Any) -> None:
    d, t = pto.language.libdevice, x[:]
    first[0, :], first[1, :] = d.j0(t), d.j1(t)
    second[0, :], second[1, :] = d.y0(t), d.y1(t)


def values(x: Any) -> tuple[Any, Any]:
    first, second = np.zeros((2, len(x))), np.zeros((2, len(x)))
    orders[1](x, first, second)
    return first, second


def test_values_of_tables() -> None:
    first, second = values(AT)
    np.testing.assert_allclose(first, [J0, J1], rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(second, [Y0, Y1], rtol=1e-12, atol=1e-15)


def test_wronskis_relation() -> None:
    x = np.concatenate([np.geomspace(1e-6, 1, 99), np.linspace(0.04, 60, 400), np.geomspace(60, 1e4, 13)])
    (j0, j1), (y0, y1) = values(x)
    np.testing.assert_allclose((j1 * y0 - j0 * y1) * x * math.pi / 2, 1, rtol=1e-12)


def test_ends() -> None:
    (j0, j1), (y0, y1) = values(np.array([0.0, math.inf, -1.0, math.nan]))
    np.testing.assert_allclose(j0, [1, 0, J0[1], math.nan])
    np.testing.assert_allclose(j1, [0, 0, -J1[1], math.nan])
    for y in (y0, y1):
        np.testing.assert_array_equal(y, [-math.inf, 0, math.nan, math.nan])
