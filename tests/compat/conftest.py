"""`triton` is pypto for the tests of this room."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest

from pypto.compat.triton import install, installed, uninstall


@pytest.fixture(scope="module")
def triton() -> Iterator[ModuleType]:
    was = installed()
    yield install()
    if not was:
        uninstall()
