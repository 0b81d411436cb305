"""Peers that are not there are noted with the reason, and all others run on the threads that they are given."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pypto
from benchmarks import peers
from benchmarks.peers import VARIABLE, imported, is_wanted, limited_threads
from benchmarks.runner import Missing


def test_a_library_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE)
    found = imported("no_such_library_at_all")
    assert isinstance(found, Missing)
    assert found.reason == "no_such_library_at_all is not installed"


def test_a_library_that_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_name: str) -> Any:
        raise OSError("libfoo.so is too old")

    monkeypatch.setattr(peers, "import_module", fail)
    found = imported("numpy")
    assert isinstance(found, Missing)
    assert found.reason == "numpy cannot be imported: OSError: libfoo.so is too old"


def test_peers_may_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "numpy,numba")
    assert is_wanted("numba") and not is_wanted("torch")
    found = imported("torch")
    assert isinstance(found, Missing)
    assert VARIABLE in found.reason
    monkeypatch.delenv(VARIABLE)
    assert is_wanted("torch")


def test_all_peers_are_named_when_they_are_missing() -> None:
    x = np.ones(3, np.float32)
    named = {**peers.torch_function(lambda t, a: a, x), **peers.numba_function("add", x, x, x),
        **peers.jax_function(lambda j, a: a, x)}  # fmt: skip
    assert named.keys() == {"torch", "numba", "jax"}
    assert all(isinstance(peer, Missing) for peer in named.values())


def test_torch_compile_that_fails_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: Any, **_kwargs: Any) -> Any:
        raise RuntimeError("no compiler\nat all")

    torch = SimpleNamespace(compile=fail, compiler=SimpleNamespace(reset=lambda: None))
    monkeypatch.delenv(VARIABLE)
    found = peers.compiled_torch(torch, lambda x: x, ())
    assert isinstance(found, Missing)
    assert found.reason == "torch.compile: RuntimeError: no compiler"


def test_a_bfloat16_array_becomes_a_tensor_of_its_bits() -> None:
    import ml_dtypes

    def from_numpy(array: Any) -> Any:
        return SimpleNamespace(view=lambda dtype: (array.dtype.name, dtype))

    torch = SimpleNamespace(bfloat16="bf16", from_numpy=from_numpy)
    assert peers.tensor(torch, np.ones(2, ml_dtypes.bfloat16)) == ("int16", "bf16")


def test_threads_are_limited_and_given_back() -> None:
    before = pypto.get_num_threads()
    with limited_threads(1):
        assert pypto.get_num_threads() == 1
    assert pypto.get_num_threads() == before
