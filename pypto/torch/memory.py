"""Memory of a step of a torch model: what its weights, gradients, optimiser and activations take, and its peak.

The peak is measured and not computed: on a CPU from the events of torch's allocator, on other devices by their own
counters. What libraries allocate past the allocator (workspaces of oneDNN) and the interpreter itself are not in it.
"""

from __future__ import annotations

import copy
import importlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, Final

from pypto.backends.registry import HOST
from pypto.errors.inductor import TooLittleMemory

_UNITS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_SIZE: Final = re.compile(r"\s*([\d.]+)\s*([kmgt]?)(i?)b?\s*", re.IGNORECASE)
_FORWARD: Final = "pypto::forward"
_MOST: Final = 1 << 20  # samples of a batch


@dataclass(frozen=True, slots=True)
class StepMemory:
    """Bytes of one step of a model, in its steady state: the optimiser's state exists when the step begins.

    Attributes
    ----------
    weights : int
        Parameters and buffers.
    inputs : int
        The samples of the batch.
    activations : int
        What is alive behind the forward pass: results, and what the backward pass needs.
    gradients : int
        Gradients of parameters; 0 without a backward pass.
    optimizer : int
        The state of the optimiser.
    peak : int
        The most that is alive at one time, with all of these.
    """

    weights: int
    inputs: int
    activations: int
    gradients: int
    optimizer: int
    peak: int

    def __str__(self) -> str:
        return "\n".join(f"{one.name:12} {in_words(getattr(self, one.name)):>10}" for one in fields(self))


def step_memory(
    model: Any, sample: Any, *, optimizer: Callable[[Any], Any] | None = None, loss: Any = None
) -> StepMemory:
    """Measures the memory of one step of a model.

    Parameters
    ----------
    model : torch.nn.Module
        It stays as it is; a step with a backward pass, or in training mode, runs on a copy.
    sample : tensor, tuple or dict of tensors
        The arguments of the model.
    optimizer : callable, optional
        Makes an optimiser of the parameters, as `torch.optim.AdamW` does. With it a step has a backward pass.
    loss : callable, optional
        Makes a number of the model's result; by default, the sum of all floats. With it a step has a backward pass.

    Returns
    -------
    StepMemory

    Examples
    --------
    >>> import torch, pypto.torch
    >>> memory = pypto.torch.step_memory(torch.nn.Linear(256, 256), torch.ones(8, 256), optimizer=torch.optim.Adam)
    >>> memory.weights, memory.gradients, memory.inputs, memory.activations
    (263168, 263168, 8192, 8192)
    """
    return Step(model, optimizer, loss).measure(arguments_of(sample))


def largest_batch(
    model: Any, sample: Any, memory: int | str, *, optimizer: Callable[[Any], Any] | None = None, loss: Any = None
) -> int:
    """Finds the largest batch with which a step of a model stays within some memory.

    A few steps are run and their peaks are measured. The peak grows along a line, which says what to run next; the
    result was run, and was within the memory.

    Parameters
    ----------
    model, optimizer, loss
        As in `step_memory`.
    sample : tensor, tuple or dict of tensors
        The arguments of the model for some samples, which are the first dimension of each tensor. Batches repeat them.
    memory : int or str
        Bytes, or a size as ``"8 GB"`` or ``"512 MiB"``.

    Returns
    -------
    int
        The number of samples.

    Raises
    ------
    TooLittleMemory
        If one sample needs more.

    Examples
    --------
    >>> import torch, pypto.torch
    >>> pypto.torch.largest_batch(torch.nn.Linear(256, 256).eval(), torch.ones(1, 256), memory="1 MiB")
    383
    """
    budget, step, args = size_of(memory), Step(model, optimizer, loss), arguments_of(sample)
    peaks = {1: step.peak(args, 1)}
    if peaks[1] > budget:
        name = type(getattr(model, "_orig_mod", model)).__name__
        raise TooLittleMemory(model=name, needed=in_words(peaks[1]), memory=in_words(budget))
    fits, exceeds = 1, _MOST + 1
    while exceeds - fits > 1:
        batch = next_batch(peaks, budget, fits, exceeds)
        peaks[batch] = step.peak(args, batch)
        fits, exceeds = (batch, exceeds) if peaks[batch] <= budget else (fits, batch)
    return fits


def next_batch(peaks: Mapping[int, float], budget: int, fits: int, exceeds: int) -> int:
    """Returns the batch to be run next: where the line through the two greatest batches that fit meets the budget."""
    known = sorted(n for n, peak in peaks.items() if n <= fits or peak < float("inf"))[-2:]
    if len(known) < 2:
        return 2
    slope = (peaks[known[1]] - peaks[known[0]]) / (known[1] - known[0])
    if slope <= 0:
        return min(2 * fits, exceeds - 1)
    estimate = int(known[1] + (budget - peaks[known[1]]) // slope)
    estimate = estimate if estimate != fits else fits + 1
    if fits < estimate < exceeds:
        return min(estimate, 8 * fits)  # a line through small batches is not trusted far
    return (fits + exceeds) // 2 if exceeds <= _MOST else min(2 * fits, _MOST)


class Step:
    """A step that can be measured: a model, and what follows its forward pass.

    Parameters
    ----------
    model, optimizer, loss
        As in `step_memory`.
    """

    def __init__(self, model: Any, optimizer: Callable[[Any], Any] | None, loss: Any) -> None:
        self.torch = importlib.import_module("torch")
        self.trains = optimizer is not None or loss is not None
        self.model = copy.deepcopy(model) if self.trains or model.training else model
        self.loss = loss or total
        self.optimizer = optimizer(self.model.parameters()) if optimizer else None
        self.device = next((x.device for x in self.model.parameters()), self.torch.device("cpu"))
        self.warm = False

    def run(self, args: tuple[Any, ...], given: Mapping[str, Any]) -> None:
        """Runs the step."""
        record = self.torch.autograd.profiler.record_function
        with self.torch.set_grad_enabled(self.trains):
            with record(_FORWARD):
                result = self.model(*args, **given)
            if self.trains:
                self.loss(result).backward()
                del result
            if self.optimizer is not None:
                self.optimizer.step()

    def measure(self, arguments: tuple[tuple[Any, ...], dict[str, Any]]) -> StepMemory:
        """Runs the step, and returns its memory; random numbers of the program stay as they are."""
        with self.torch.random.fork_rng(devices=[]):
            if not self.warm:  # the optimiser makes its state in the first step
                self.run(*arguments)
                self.warm = True
            if self.trains:
                self.model.zero_grad(set_to_none=True)
            return self.measured(*arguments)

    def measured(self, args: tuple[Any, ...], given: Mapping[str, Any]) -> StepMemory:
        """Runs a step that is in its steady state, and returns its memory."""
        state = self.optimizer.state.values() if self.optimizer is not None else ()
        optimizer = nbytes(x for each in state for x in each.values())
        weights = nbytes([*self.model.parameters(), *self.model.buffers()])
        inputs = nbytes([*args, *given.values()])
        with self.watched() as allocated:
            self.run(args, given)
        activations, most = allocated
        gradients = nbytes(x.grad for x in self.model.parameters())
        peak = weights + inputs + optimizer + most
        return StepMemory(weights, inputs, activations, gradients, optimizer, peak)

    def peak(self, arguments: tuple[tuple[Any, ...], dict[str, Any]], batch: int) -> float:
        """Returns the peak for so many samples; infinite where the machine has no such memory."""
        args, given = arguments
        try:
            inputs = (
                tuple(self.repeated(x, batch) for x in args),
                {n: self.repeated(x, batch) for n, x in given.items()},
            )
            return self.measure(inputs).peak
        except (MemoryError, RuntimeError) as error:
            if "memory" not in str(error).lower() or batch == 1:
                raise
            return float("inf")

    def repeated(self, value: Any, batch: int) -> Any:
        """Returns so many samples: those of a tensor, again and again."""
        if not isinstance(value, self.torch.Tensor) or not value.dim():
            return value
        return value[self.torch.arange(batch, device=value.device) % len(value)]

    @contextmanager
    def watched(self) -> Iterator[list[int]]:
        """Measures what is allocated in a block beyond its begin: behind the forward pass, and at most."""
        allocated = [0, 0]
        if self.device.type == HOST:
            profilers = importlib.import_module("torch.profiler")
            cpu = [profilers.ProfilerActivity.CPU]
            with profilers.profile(activities=cpu, profile_memory=True) as profiler:
                yield allocated
            allocated[:] = alive(profiler.profiler.kineto_results.events())
            return
        module = self.torch.get_device_module(self.device)
        module.reset_peak_memory_stats()
        before, after = module.memory_allocated(), []
        handle = self.model.register_forward_hook(lambda *_: after.append(module.memory_allocated()))
        try:
            yield allocated
        finally:
            handle.remove()
        allocated[:] = after[-1] - before, module.max_memory_allocated() - before


def alive(events: Any) -> tuple[int, int]:
    """Returns the bytes that are allocated behind the forward pass, and the most at one time."""
    end = max((e.start_ns() + e.duration_ns() for e in events if e.name() == _FORWARD), default=0)
    changes = sorted((e.start_ns(), n, e.nbytes()) for n, e in enumerate(events) if e.name() == "[memory]")
    total, most, behind = 0, 0, 0
    for time, _, change in changes:
        total += change
        most = max(most, total)
        behind = total if time <= end else behind
    return behind, most


def arguments_of(sample: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns the arguments of a model by position and by name."""
    if isinstance(sample, Mapping):
        return (), dict(sample)
    return (tuple(sample) if isinstance(sample, tuple | list) else (sample,)), {}


def total(result: Any) -> Any:
    """Returns the sum of all floats in a result, as a loss that needs all gradients."""
    parts = result.values() if isinstance(result, Mapping) else result if isinstance(result, tuple | list) else [result]
    return sum(x.sum() for x in parts if hasattr(x, "is_floating_point") and x.is_floating_point())


def nbytes(tensors: Iterable[Any]) -> int:
    """Returns the bytes of tensors; each counts once."""
    unique = {id(x): x for x in tensors if hasattr(x, "untyped_storage")}
    return sum(x.numel() * x.element_size() for x in unique.values())


def size_of(memory: int | str) -> int:
    """Returns the bytes of a size.

    Examples
    --------
    >>> size_of(512), size_of("1.5 GB"), size_of("2 MiB")
    (512, 1500000000, 2097152)
    """
    if not isinstance(memory, str):
        return int(memory)
    match = _SIZE.fullmatch(memory)
    if match is None:
        raise ValueError(f"{memory!r} is no size; write it as '8 GB' or '512 MiB'")
    number, unit, binary = match.groups()
    return int(float(number) * (1024 if binary else 1000) ** _UNITS[unit.lower()])


def in_words(size: float) -> str:
    """Writes a number of bytes as people do.

    Examples
    --------
    >>> in_words(512), in_words(2.5e6)
    ('512 B', '2.5 MB')
    """
    for unit, one in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= one:
            return f"{size / one:.3g} {unit}"
    return f"{int(size)} B"
