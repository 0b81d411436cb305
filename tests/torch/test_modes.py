"""Launches while a mode of torch's dispatcher is active: the mode sees them, or they are an error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto import library
from pypto.errors.launch import ReadOnlyArgument, RecordedArgument, UndispatchedLaunch, WrongGrid

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

import pypto.torch  # noqa: E402

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


@pto.jit
def product(x, w, out):
    out[:, :] = pto.dot(x[:, :], w[:, :])


@pto.jit
def rows(x, w, out):
    out[pto.program_id(0), :] = x[pto.program_id(0), :] * w[:]


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
    assert inner.names == outer.names == ["pypto.rms_norm.default"]
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


def test_what_the_operator_cannot_take_is_an_error() -> None:
    x, out = torch.ones(4), torch.zeros(4)
    with Seen(), pytest.raises(UndispatchedLaunch, match="`both` is a tuple"):
        pair[1]((x, x), out)
    assert out.tolist() == [0.0] * 4
    with pytest.raises(UndispatchedLaunch, match="`x` is a ndarray, and other arguments are tensors"):
        make_fx(lambda out: scaled[1](np.ones(4, np.float32), out))(out)
    assert out.tolist() == [0.0] * 4


@pytest.mark.parametrize("writeable", [True, False])
def test_arrays_beside_tensors(writeable: bool) -> None:
    """Where the mode makes no graph, which would hold what is in them now."""
    array, out = np.ones(4, np.float32), torch.zeros(4)
    array.flags.writeable = writeable
    with Seen() as seen:
        scaled[1](array, out)
        if writeable:
            scaled[1](out, array)
        else:
            with pytest.raises(ReadOnlyArgument):
                scaled[1](out, array)
    assert out.tolist() == [2.0] * 4 and array.tolist() == [4.0 if writeable else 1.0] * 4
    assert seen.names.count(LAUNCH) == 1 + writeable


def test_a_kernel_that_asks_for_the_sizes_of_its_arrays() -> None:
    """One that is compiled for no arrays of any other size is planned for these."""
    x, w = torch.randn(2, 3), torch.randn(3, 5)
    out = torch.zeros(2, 5)
    with Seen() as seen:
        product[1](x, w, out)
    torch.testing.assert_close(out, x @ w)
    assert seen.names == [LAUNCH]


def test_a_launch_of_no_programs_and_a_wrong_grid() -> None:
    with Seen() as seen:
        scaled[0](torch.ones(4), torch.zeros(4))
        with pytest.raises(WrongGrid):
            scaled[-1](torch.ones(4), torch.zeros(4))
    assert LAUNCH not in seen.names


def test_gradients_are_seen() -> None:
    """A mode sees the operators of the kernel and of its derived one, and nothing inside of them."""
    f = pypto.torch.op(rows, grid=lambda values: values["x"].shape[0], outputs={"out": "x"})
    x, w = torch.randn(4, 8), torch.randn(8, requires_grad=True)
    with Seen() as seen:
        f(x, w).sum().backward()
    torch.testing.assert_close(w.grad, x.sum(0))
    operators = [name.split(".")[1] for name in seen.names if name.startswith("pypto_ops.")]
    assert [name.partition("_")[0] for name in operators] == ["rows", "rows"] and operators[1].endswith("_backward")
    assert LAUNCH not in seen.names


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
