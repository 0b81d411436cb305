"""Profiles of torch models: operators with ATen's share, modules, and our launches in torch's own profiler."""

from __future__ import annotations

import json
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

import pypto as pto
from pypto import library
from pypto.profiler.wall import OTHER

torch = pytest.importorskip("torch")
nn = torch.nn
WIDTHS = (
    (64, 64, 1),
    (64, 64, 1),
    (64, 128, 2),
    (128, 128, 1),
    (128, 256, 2),
    (256, 256, 1),
    (256, 512, 2),
    (512, 512, 1),
)


@pto.jit
def double(x: Any, y: Any) -> None:
    y[:] = x[:] * 2


class Block(nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False), nn.BatchNorm2d(outside)
        self.conv2, self.bn2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False), nn.BatchNorm2d(outside)
        self.skip = nn.Identity()
        if stride > 1:
            self.skip = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

    def forward(self, x: Any) -> Any:
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + self.skip(x))


def resnet18() -> Any:
    """ResNet-18 for small images: the layers of the original."""
    stem = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)]
    return nn.Sequential(*stem, *(Block(*width) for width in WIDTHS), *head).eval()


def profiled(model: Any, x: Any) -> tuple[pto.profiler.Profile, int]:
    """A profile of a second call under the profiler, and its wall time as it is measured inside.

    A busy machine may take the core away between the two clocks, so a few calls are tried.
    """
    with torch.no_grad(), pto.profile():
        model(x)
    for _ in range(5):
        with torch.no_grad(), pto.profile() as prof:
            start = time.perf_counter_ns()
            model(x)
            inside = time.perf_counter_ns() - start
        if sum(row.total_ns for row in prof.operators) == pytest.approx(inside - prof.overhead_ns, rel=0.02):
            break
    return prof, inside


@pytest.mark.parametrize("backend", ["eager", pytest.param("compiled", marks=pytest.mark.slow)])
def test_a_residual_network_adds_up_and_names_convolutions_first(backend: str) -> None:
    model = resnet18()
    x = torch.randn(1, 3, 96, 96)
    if backend == "compiled":
        model = torch.compile(model, backend="pypto-inductor")
        with torch.no_grad():
            model(x)
    prof, inside = profiled(model, x)
    rows = prof.operators
    assert "conv" in rows[0].name
    assert rows[0].calls == 20
    assert rows[0].flops == pytest.approx(sum(conv_flops()), rel=0.01)
    assert sum(row.share for row in rows) == pytest.approx(1)
    assert sum(row.total_ns for row in rows) == pytest.approx(inside - prof.overhead_ns, rel=0.02)
    assert any(row.level == "kernel" for row in rows) == (backend == "compiled")
    assert prof.modules[0].name == "Sequential"
    assert 0.9 < prof.modules[0].share < 1.05
    first = next(line for line in str(prof).splitlines() if line.startswith("│"))
    assert "conv" in first
    assert f"{rows[0].share:.1%}" in prof._repr_html_()


def conv_flops() -> list[float]:
    """Operations of the convolutions of the network at 96 pixels."""
    side, flops = 24, [2.0 * 48 * 48 * 64 * 3 * 49]
    for inside, outside, stride in WIDTHS:
        side //= stride
        flops += [2.0 * side * side * outside * 9 * width for width in (inside, outside)]
        flops += [2.0 * side * side * outside * inside] if stride > 1 else []
    return flops


def test_modules_hold_their_operators() -> None:
    prof, _ = profiled(resnet18(), torch.randn(1, 3, 96, 96))
    shares = {row.name: row.share for row in prof.modules}
    assert set(shares) >= {"Sequential", "Sequential.4", "Sequential.4.conv1", "Sequential.6.skip.1", "Sequential.14"}
    inner = sum(share for name, share in shares.items() if name.startswith("Sequential.4."))
    assert inner <= shares["Sequential.4"] + 1e-3
    assert "module Sequential  " in str(prof)


def test_a_training_step_has_its_backward_pass() -> None:
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
    x = torch.randn(32, 64)
    with pto.profile() as prof:
        model(x).sum().backward()
    names = {row.name for row in prof.operators}
    assert {"aten::linear", "aten::mm", "aten::threshold_backward", OTHER} <= names
    assert sum(row.share for row in prof.operators) == pytest.approx(1)


def test_launches_are_no_part_of_the_operator_around_them() -> None:
    @torch.library.custom_op("pyptotest::twice", mutates_args=())  # type: ignore[untyped-decorator]
    def twice(x: torch.Tensor) -> torch.Tensor:  # type: ignore[name-defined]
        y = torch.empty_like(x)
        double[(1,)](x, y)
        return y

    x = torch.ones(1 << 22)
    with pto.profile():
        twice(x)
    with pto.profile() as prof:
        twice(x)
    rows = {row.name: row for row in prof.operators}
    assert rows["double"].calls == 1
    assert rows["pyptotest::twice"].total_ns < rows["double"].total_ns


def test_torchs_own_profiler_shows_launches(tmp_path: Path) -> None:
    x, y = torch.ones(64), torch.empty(64)
    cpu = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=cpu) as theirs, pto.profile() as ours:
        double[(1,)](x, y)
        torch.relu(x)
    theirs.export_chrome_trace(str(tmp_path / "trace.json"))
    names = [event.get("name") for event in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]]
    assert names.count("double") == 1
    assert [row.name for row in ours.operators] == ["double", OTHER]
    assert "torch's profiler runs already" in str(ours)


def test_torchs_profiler_alone_shows_launches_and_rows() -> None:
    """Also those that native code makes otherwise; without a profiler, it makes them again."""
    x, y, g = torch.ones(64), torch.empty(64), torch.ones(64)
    kernels = ("double", "rms_norm_kernel")
    for _ in range(9):
        double[(1,)](x, y)
        library.rms_norm(x[None], g)
    for _ in range(2):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as theirs:
            for _ in range(3):
                double[(1,)](x, y)
                library.rms_norm(x[None], g)
        counts = {event.key: event.count for event in theirs.key_averages() if event.key in kernels}
        assert counts == dict.fromkeys(kernels, 3)
        double[(1,)](x, y)
    assert torch.equal(y, 2 * x)


def test_a_profile_recompiles_nothing_and_leaves_no_hook() -> None:
    from torch._dynamo.utils import counters

    model = torch.compile(nn.Sequential(nn.Linear(8, 8), nn.ReLU()), backend="eager", fullgraph=True)
    x = torch.ones(2, 8)
    model(x)
    graphs = counters["stats"]["unique_graphs"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pto.profile() as prof:
            model(x)
        model(x)
    assert counters["stats"]["unique_graphs"] == graphs
    assert not nn.modules.module._global_forward_hooks
    assert not nn.modules.module._global_forward_pre_hooks
    assert "aten::linear" in {row.name for row in prof.operators}
