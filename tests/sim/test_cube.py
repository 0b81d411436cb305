"""The simulated cube core: layouts, products, the way out, and work shared with vector cores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pypto.runtime.acl import AclError
from tests.sim.device import launched, needs_compiler

pytestmark = needs_compiler
RNG = np.random.default_rng(1)

FOLDER = Path(__file__).parent


def kernel(*names: str, file: str = "cube", out: str = "float", quant: str = "NoQuant", m: str = "rows") -> str:
    """The source of a kernel; `names` are defined in it."""
    defined = (*names, f"OUT {out}", f"QUANT {quant}", f"M {m}")
    parts = [(FOLDER / f"{name}.asc").read_text(encoding="utf-8") for name in ("product", file)]
    return "\n".join([*(f"#define {name}" for name in defined), *parts])


@pytest.mark.parametrize(("m", "n", "k"), [(64, 64, 64), (16, 128, 32), (128, 48, 112)])
@pytest.mark.parametrize(("out", "quant"), [("float", "NoQuant"), ("half", "F322F16")])
@pytest.mark.parametrize("arch", ["dav-2201", "dav-3510"])
def test_products(m: int, n: int, k: int, out: str, quant: str, arch: str) -> None:
    a, b = RNG.standard_normal((m, k)).astype(np.float16), RNG.standard_normal((k, n)).astype(np.float16)
    c = np.zeros((m, n), np.float32 if out == "float" else np.float16)
    launched(kernel(out=out, quant=quant), [a, b, c], m, n, k, arch=arch)
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(
        c.astype(np.float64), wanted, rtol=2e-3 if out == "half" else 1e-5, atol=2e-3 if out == "half" else 1e-4
    )


def test_each_chip_has_an_order_of_fractals_of_its_own() -> None:
    """What 2201 wants in L0A, strips of rows one after the other, is another matrix to 3510."""
    a, b = RNG.integers(-8, 8, (64, 48)).astype(np.float16), RNG.integers(-8, 8, (48, 32)).astype(np.float16)
    c, wanted = np.zeros((64, 32), np.float32), a.astype(np.float32) @ b.astype(np.float32)
    launched(kernel("STRIPS"), [a, b, c], 64, 32, 48)
    np.testing.assert_array_equal(c, wanted)
    launched(kernel("STRIPS"), [a, b, c], 64, 32, 48, arch="dav-3510")
    assert np.isfinite(c).all()
    assert np.mean(c != wanted) > 0.5


def test_one_row_is_another_mode() -> None:
    a, b, c = np.ones((16, 16), np.float16), np.ones((16, 16), np.float16), np.zeros((16, 16), np.float32)
    with pytest.raises(AclError, match="m = 1 switches to another layout"):
        launched(kernel(m="1"), [a, b, c], 16, 16, 16)


def test_cube_and_vector_cores_work_together() -> None:
    m = n = k = 64
    a, b = RNG.standard_normal((m, k)).astype(np.float16), RNG.standard_normal((k, n)).astype(np.float16)
    c, y = np.zeros((m, n), np.float32), np.zeros((m, n), np.float32)
    launched(kernel("SETS", "WAITS", file="mixed"), [a, b, c, y], m, n, k)
    np.testing.assert_allclose(y, np.maximum(a.astype(np.float32) @ b.astype(np.float32), 0), rtol=1e-4, atol=1e-4)
    with pytest.raises(AclError, match="two cores use the same bytes"):
        launched(kernel(file="mixed"), [a, b, c, y], m, n, k)
    with pytest.raises(AclError, match="waits for another one"):
        launched(kernel("WAITS", file="mixed"), [a, b, c, y], m, n, k)
