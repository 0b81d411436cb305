"""Everything about launches holds for those in native code and for those through Python."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pypto.runtime.mode import mode


@pytest.fixture(params=["native", "python"], autouse=True)
def path(request: pytest.FixtureRequest) -> Iterator[str]:
    """Which way launches go."""
    if request.param == "native":
        yield "native"
        return
    with mode():
        yield "python"
