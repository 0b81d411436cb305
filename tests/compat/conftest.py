"""`triton` is pypto for the tests of this room."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from pypto.compat.triton import install, installed, uninstall
from tests.compat.environments import with_distribution


@pytest.fixture(scope="module")
def triton() -> Iterator[ModuleType]:
    was = installed()
    yield install()
    if not was:
        uninstall()


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment where `import triton` gives pypto."""
    return with_distribution(tmp_path_factory.mktemp("distribution"))
