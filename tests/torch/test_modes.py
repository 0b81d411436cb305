"""Launches while a mode of torch's dispatcher is active: the mode sees them, or they are an error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto import library
from pypto.errors.launch import RecordedArgument, UndispatchedLaunch

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

LAUNCH = "pypto.launch.default"
SCALE = 2.0


@pto.jit
def axpy(x, y, out, n, a, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    pto.store(out + i, pto.load(x + i, mask=i < n) * a + pto.load(y + i, mask=i < n), mask=i < n)


@pto.jit
def pair(both, out):
    out[:] = both[0][:] + both[1][:]


@pto.jit
def scaled(x, out):
    out[:] = x[:] * SCALE


@pto.autotune([pto.Config({"BLOCK": 4}), pto.Config({"BLOCK": 8})], key=[], cache_results=False)
@pto.jit
def tuned(x, out, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK
    out[i : i + BLOCK] = x[i : i + BLOCK] * 2


def function(x: Any, y: Any) -> Any:
    out, n = torch.empty_like(x), x.numel()
    axpy[lambda meta: (pto.cdiv(n, meta["BLOCK"]),)](x, y, out, n, 2.0, BLOCK=16)
    return out + 1


class Seen(TorchDispatchMode):
    """Notes the names of operators."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
@pytest.mark.parametrize("launched", [False, True])
def test_make_fx(mode: str, launched: bool) -> None:
    """With real tensors, the graph had `empty_like` alone, and returned what was in memory."""
    x, y = torch.randn(50), torch.randn(50)
    for _ in range(2 * launched):  # native code knows the launch then
        function(x, y)
    graph = make_fx(function, tracing_mode=mode)(x, y)
    assert graph.code.count("pypto.launch") == 1
    others = [torch.randn(70 if mode == "symbolic" else 50) for _ in range(2)]
    assert torch.equal(graph(*others), function(*others))


def test_modes_see_launches_and_rows() -> None:
    x, w = torch.randn(4, 8), torch.ones(8)
    expected = library.rms_norm(x, w)
    with FlopCounterMode(display=False), Seen() as outer, Seen() as inner:
        found = library.rms_norm(x, w)
    assert LAUNCH in inner.names and inner.names == outer.names
    assert torch.equal(found, expected)


def test_a_graph_follows_its_globals(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was planned for a kernel holds while what it reads from outside does."""
    from pypto.torch.graph.operator import launches

    names = []
    for scale in (2.0, 5.0):
        monkeypatch.setitem(globals(), "SCALE", scale)
        out = torch.zeros(4)
        with Seen():
            scaled[1](torch.ones(4), out)
        assert out.tolist() == [scale] * 4
        names += [name for name, _ in launches().calls if "scaled" in name]
    assert len(set(names)) == 2


def test_trials_of_a_tuner_are_seen_by_none() -> None:
    out = torch.zeros(8)
    with Seen() as seen:
        tuned[lambda meta: (8 // meta["BLOCK"],)](torch.ones(8), out)
    assert seen.names.count(LAUNCH) == 1 and out.tolist() == [2.0] * 8


REFUSED: dict[str, tuple[Any, str]] = {
    "tuples": (lambda x, out: pair[1]((x, x), out), "`both` is a tuple"),
    "arrays": (lambda x, out: scaled[1](np.ones(4, np.float32), out), "`x` is a ndarray, and other arguments"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_the_operator_cannot_take_is_an_error(kind: str) -> None:
    launch, words = REFUSED[kind]
    x, out = torch.ones(4), torch.zeros(4)
    with Seen(), pytest.raises(UndispatchedLaunch, match=words):
        launch(x, out)
    assert out.tolist() == [0.0] * 4
    launch(x, out)
    assert out.tolist() == [2.0] * 4


def test_writing_to_what_requires_grad_is_the_same_error() -> None:
    out = torch.zeros(4, requires_grad=True)
    with Seen(), pytest.raises(RecordedArgument):
        scaled[1](torch.ones(4), out)


def test_arrays_alone_are_none_of_the_dispatchers() -> None:
    x, out = np.ones(4, np.float32), np.zeros(4, np.float32)
    with Seen() as seen:
        scaled[1](x, out)
    assert out.tolist() == [2.0] * 4 and not seen.names


def test_where_the_dispatcher_passes_modes_over() -> None:
    out = torch.zeros(4)
    with Seen() as seen, torch._C._DisableTorchDispatch():
        scaled[1](torch.ones(4), out)
    assert out.tolist() == [2.0] * 4 and not seen.names
