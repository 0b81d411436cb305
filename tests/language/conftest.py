"""What runs a kernel: the CPU backend and the interpreter."""

from __future__ import annotations

import pytest

import pypto as pto
from tests.language.engines import Engine


@pytest.fixture(params=["cpu", "interpreter"])
def on(request: pytest.FixtureRequest) -> Engine:
    """A kernel as it is compiled, and as the interpreter runs it."""
    return pto.interpret if request.param == "interpreter" else lambda kernel: kernel
