"""Sums up operators and modules of torch in a profile, from the events of torch's own profiler, which runs beside ours.

While a profiler of torch runs, ours or the user's, each launch of a kernel is a range in it too.
"""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final

from pypto.runtime.tensors import profiled_torch, span

ROOT: Final = "pypto::profile"
OURS: Final = "pypto::profiler"  # work of the profiler around a launch, with the launch inside
MODULE: Final = "pypto::module "
_NO_OPERATORS: Final = ("autograd::", "pypto::", "torch::", "inductor::")
_BYTES: Final = {"double": 8, "long int": 8, "c10::BFloat16": 2, "c10::Half": 2, "signed char": 1, "unsigned char": 1,
                 "bool": 1}  # fmt: skip
_RUNS: Final = "torch's profiler runs already, so its operators are there, and here in the last row"
_WARNING: Final = r"Using `torch.compile\(module\)` when there are global hooks"  # our hooks do nothing when compiled


@dataclass(slots=True)
class Sum:
    """The totals of all calls of an operator, or of a module."""

    total_ns: float = 0.0
    calls: int = 0
    bytes: float = 0.0
    flops: float = 0.0

    def add(self, total_ns: float, moved: float = 0.0, flops: float = 0.0) -> None:
        """Adds one call."""
        self.total_ns += total_ns
        self.calls += 1
        self.bytes += moved
        self.flops += flops


@dataclass(slots=True)
class TorchEvents:
    """The recorder of what torch does on this thread in a `with` block.

    Attributes
    ----------
    operators, modules : dict of str to Sum
        By name, without the time of launches in an operator, and with all that a module does.
    problem : str
        The reason why nothing was recorded, though torch is loaded.
    """

    operators: dict[str, Sum] = field(default_factory=dict)
    modules: dict[str, Sum] = field(default_factory=dict)
    problem: str = ""
    names: dict[int, str] = field(default_factory=dict)
    open: list[tuple[Any, Any]] = field(default_factory=list)
    thread: int = 0

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Runs torch's profiler in a `with` block; where a profiler of torch runs already, nothing is recorded."""
        torch = profiled_torch()
        if torch is None or torch.autograd._profiler_enabled():
            self.problem = "" if torch is None else _RUNS
            yield
            return
        import torch.profiler as profilers

        self.thread = threading.get_ident()
        cpu = [profilers.ProfilerActivity.CPU]
        recorded = profilers.profile(activities=cpu, record_shapes=True, with_flops=True, profile_memory=True)
        with recorded as profiler, self.hooks(torch), span(ROOT):
            yield
        roots = [event for event in profiler.events() if event.name == ROOT]
        for event in roots[0].cpu_children if roots else ():
            self.visit(event)

    @contextlib.contextmanager
    def hooks(self, torch: Any) -> Iterator[None]:
        """Installs hooks, in a `with` block, that make a range of each call of a module."""
        modules = torch.nn.modules.module
        handles = [
            modules.register_module_forward_pre_hook(self.begin),
            modules.register_module_forward_hook(self.end, always_call=True),
        ]
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=_WARNING)
            try:
                yield
            finally:
                for handle in handles:
                    handle.remove()

    def begin(self, module: Any, _args: Any) -> None:
        """Opens the range of a module, except where torch.compile traces through it."""
        if profiled_torch().compiler.is_compiling() or threading.get_ident() != self.thread:
            return
        if not self.open:
            root = getattr(module, "_orig_mod", module)
            title = type(root).__name__
            self.names = {id(m): f"{title}.{path}" if path else title for path, m in root.named_modules()}
            self.names[id(module)] = title
        opened = span(MODULE + self.names.get(id(module), type(module).__name__))
        opened.__enter__()
        self.open.append((module, opened))

    def end(self, module: Any, _args: Any, _output: Any) -> None:
        """Closes the range of a module."""
        if profiled_torch().compiler.is_compiling() or threading.get_ident() != self.thread:
            return
        if self.open and self.open[-1][0] is module:
            self.open.pop()[1].__exit__(None, None, None)

    def visit(self, event: Any) -> tuple[float, float]:
        """Adds an event and its children; returns the nanoseconds of its launches, and of the work around them."""
        if event.name == OURS:
            launched = sum(1e3 * child.time_range.elapsed_us() for child in event.cpu_children)
            return launched, 1e3 * event.time_range.elapsed_us() - launched
        if is_operator(event.name):
            launched, lost = launches_in(event)
            total = 1e3 * event.time_range.elapsed_us() - launched - lost
            self.operators.setdefault(event.name, Sum()).add(total, moved(event), flops(event))
            return launched, lost
        parts = [self.visit(child) for child in event.cpu_children]
        launched, lost = (sum(part[n] for part in parts) for n in (0, 1))
        if event.name.startswith(MODULE):
            name = event.name.removeprefix(MODULE)
            self.modules.setdefault(name, Sum()).add(1e3 * event.time_range.elapsed_us() - lost)
        return launched, lost


def is_operator(name: str) -> bool:
    """Says whether an event is an operator of torch, such as ``aten::relu``."""
    return "::" in name and " " not in name and not name.startswith(_NO_OPERATORS)


def launches_in(event: Any) -> tuple[float, float]:
    """Returns the nanoseconds of launches inside an operator, and of the profiler's work around them."""
    if event.name == OURS:
        launched = sum(1e3 * child.time_range.elapsed_us() for child in event.cpu_children)
        return launched, 1e3 * event.time_range.elapsed_us() - launched
    parts = [launches_in(child) for child in event.cpu_children]
    return sum(part[0] for part in parts), sum(part[1] for part in parts)


def flops(event: Any) -> float:
    """Returns the operations of an operator and its children, as torch counts them, and those of convolutions."""
    known = event.flops or sum(flops(child) for child in event.cpu_children)
    if known or "convolution" not in event.name:
        return float(known)
    shapes = [shape for shape in event.input_shapes if len(shape) > 2]  # images and weights
    if "backward" in event.name and len(shapes) > 2:  # the gradients of results, images, weights; it computes two
        return float(4 * prod(shapes[0]) * prod(shapes[2][1:]))
    results = max(0, event.cpu_memory_usage) / item_bytes(event)[0]
    return float(2 * results * prod(shapes[1][1:])) if len(shapes) > 1 else 0.0


def item_bytes(event: Any) -> list[int]:
    """Returns the bytes of an element of each input; 4 where the dtype is not known."""
    dtypes = getattr(event, "input_dtypes", None) or [""] * len(event.input_shapes)
    return [_BYTES.get(dtype, 4) for dtype in dtypes]


def moved(event: Any) -> float:
    """Returns the bytes of tensors that an operator reads and writes; 0 for a view."""
    shaped = zip(event.input_shapes, item_bytes(event), strict=False)
    sizes = [prod(shape) * size for shape, size in shaped if shape]
    written = max(0, event.cpu_memory_usage)
    if not written and event.name.endswith("_"):
        written = sizes[0] if sizes else 0
    return float(sum(sizes) + written) if written else 0.0
