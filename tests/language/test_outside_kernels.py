"""Functions of the language that are called on arrays, outside of a kernel: one sentence, at the user's line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.errors.frontend import OutsideKernel

OF_TILES = ("exp", "sum", "max", "all", "sort", "softmax", "mean", "var", "std", "logsumexp", "relu", "gelu", "silu")


@pytest.mark.parametrize("name", OF_TILES)
def test_a_function_of_tiles_on_an_array_names_itself_and_the_users_line(name: str) -> None:
    function: Any = getattr(pto, name)
    with pytest.raises(OutsideKernel, match=rf"pto\.{name} can be called inside a kernel only") as caught:
        function(np.ones((2, 3), np.float32))
    assert caught.value.loc.file == __file__
    assert "pypto.arrays" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "way"), [("grad", "pto.adjoint"), ("matmul", "pypto.arrays"), ("einsum", "pypto.arrays")]
)
def test_a_name_that_others_have_says_where_to_look(name: str, way: str) -> None:
    with pytest.raises(AttributeError, match=way):
        getattr(pto, name)


def test_no_similar_name_is_searched_for_one_of_a_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    """`hasattr` asks for such a name wherever a kernel reads a module, and a search takes milliseconds."""
    searched: list[str] = []

    def search(name: str, names: list[str], most: int) -> list[str]:
        searched.extend(names)
        return []

    monkeypatch.setattr("difflib.get_close_matches", search)
    assert not hasattr(pto, "__array_interface__") and not hasattr(pto, "__dlpack__")
    assert searched == []
    assert not hasattr(pto, "soft_max")
    assert "softmax" in searched
