"""A hundred functions as people write them run under `pto.fuse`, or are refused with the line and a way out."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import pypto as pto
from pypto.errors import Diagnostic
from tests.graph.functions import finance, image, learning, physics, signals, statistics

MODULES: Final = (image, signals, finance, statistics, physics, learning)
CASES: Final = {function.__name__: (function, make) for module in MODULES for function, make in module.CASES.items()}
REFUSED: Final = {  # with what the refusal says
    "logistic_regression": "a condition",
    "knn_predict": "np.bincount",
    "gaussian_nb": "its size is asked for",
    "one_hot": "an index or a size",
    "lda_two_classes": "needs its size",
}


def leaves(x: Any) -> list[Any]:
    """Return the arrays and numbers of a result."""
    parts = [x[name] for name in sorted(x)] if isinstance(x, dict) else x if isinstance(x, list | tuple) else None
    return [x] if parts is None else [leaf for part in parts for leaf in leaves(part)]


def check(function: Callable[..., Any], fused: Any, args: tuple[Any, ...]) -> None:
    """Compare results and updated arguments with plain numpy."""
    theirs, ours = copy.deepcopy(args), copy.deepcopy(args)
    with np.errstate(all="ignore"):
        wanted = function(*theirs)
    found = fused(*ours)
    for a, b in zip(leaves(found) + leaves(ours), leaves(wanted) + leaves(theirs), strict=True):
        assert (np.shape(a), np.asarray(a).dtype) == (np.shape(b), np.asarray(b).dtype)
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.filterwarnings("ignore::pypto.errors.advice.LoopUnrolled")  # how long it takes depends on the machine
@pytest.mark.parametrize("name", [name for name in CASES if name not in REFUSED])
def test_functions_of_people_are_right_on_other_values_and_shapes(name: str) -> None:
    function, make = CASES[name]
    fused = pto.fuse(function)
    for seed, size in ((0, 20), (1, 20), (2, 27)):
        check(function, fused, make(np.random.default_rng(seed), size))


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_names_the_line_and_the_way_out(name: str) -> None:
    function, make = CASES[name]
    with pytest.raises(Diagnostic, match=REFUSED[name]) as caught:
        pto.fuse(function)(*make(np.random.default_rng(0), 20))
    assert caught.value.loc is not None and caught.value.loc.file.endswith("functions/learning.py")
    assert "help: " in str(caught.value)


def test_at_least_eighty_five_of_a_hundred_run() -> None:
    assert len(CASES) == 109 and len(CASES) - len(REFUSED) >= 0.85 * len(CASES)
