"""Caches the checks of calls: a call like an earlier one allocates its results and replays its launches at once.

A call's key has all that its checks depend on: which arguments are given, their types, dtypes, shapes and strides, the
numbers that sizes and conditions use, the device and stream of arrays on a device, and what autograd records. Elements
of arrays are no part of a key, so integers that kernels use as positions are checked in every call. Other calls go
through `Binder`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import numpy as np

from pypto.library.binding import Binder
from pypto.library.leading import LeadingDims
from pypto.library.recording import Numbers, RecordedCall, recorded
from pypto.library.signature import Signature
from pypto.runtime.device_arrays import DeviceArray
from pypto.runtime.devices import Device
from pypto.runtime.launches import HOST
from pypto.runtime.mode import MODE, PLAIN

Key = tuple[Any, ...]
NUMBERS: Final = (int, float, bool)
MOST: Final = 256  # calls that a row keeps
RECORDINGS: Final = 4  # of a call's launches, each for other numbers
WAIT: Final = 4  # repeated calls before launches are recorded
CACHE_BYTES: Final = 1 << 22  # bytes between launches that the calls of a row keep
NOWHERE: Final = object()  # where launches of a context are not made as they always are


@dataclass(slots=True)
class CheckedCall:
    """A call that passed all checks, without its arrays.

    Parameters
    ----------
    binder : Binder
    run : callable or None
        Launches the kernels; None if nothing is to compute.
    absent : mapping of str
        The values of arguments that are not given.
    kinds : tuple of (str, callable)
        Numbers that are given as truth values or as pairs, and what kernels take them as.
    dims : mapping of str to int
    results : tuple of (str, callable)
        Functions that allocate the results, from the first array.
    leading : LeadingDims or None
        How kernels see arrays with free leading dimensions, if they have not just one.
    """

    binder: Binder
    run: Callable[..., None] | None
    absent: Mapping[str, Any]
    kinds: tuple[tuple[str, Callable[[Any], Any]], ...]
    dims: Mapping[str, int]
    results: tuple[tuple[str, Callable[[Any], Any]], ...]
    leading: LeadingDims | None = None
    names: tuple[str, ...] = field(init=False)
    first: str = field(init=False)
    read: frozenset[str] = field(init=False)
    pairs: bool = field(init=False)
    recording: RecordedCall | None = field(default=None, init=False)
    recorder: Recorder | None = field(default=None, init=False)
    direct: Callable[..., None] | None = field(default=None, init=False)  # `run`, if nothing else is to decide

    def __post_init__(self) -> None:
        """Derives from the signature what every call needs."""
        signature = self.binder.signature
        self.names, self.first, self.read = signature.names, signature.inputs[0].name, signature.conditions.arrays
        self.pairs = self.binder.has_pairs

    def __call__(self, args: tuple[Any, ...], given: Mapping[str, Any]) -> Any:
        """Checks the integers, allocates the results and launches the kernels."""
        values = {**self.absent, **dict(zip(self.names, args, strict=False)), **given}
        for name, kind in self.kinds:
            values[name] = kind(values[name])
        if self.read:
            arrays = {name: host_elements(x) for name in self.read if (x := values[name]) is not None}
            if self.leading is not None:
                arrays = {name: self.leading.flattened(name, x) for name, x in arrays.items()}
            self.binder.check_conditions(self.dims, arrays)
        return self.results_of(values)

    def results_of(self, values: dict[str, Any]) -> Any:
        """Allocates the results and launches the kernels, on arguments that were checked."""
        like, results = values[self.first], []
        for name, allocate in self.results:
            values[name] = result = allocate(like)
            results.append(result)
        if self.direct is not None:
            self.direct(**values)
        elif self.recording is None or not self.recording.replay(values):
            if self.pairs:
                self.binder.check_apart(values)
            self.launch(values)
            if self.recorder is not None:
                self.recorder.record(self, values)
        return results[0] if len(results) == 1 else tuple(results) or None

    def direct_launch(self, values: dict[str, Any]) -> Callable[..., None] | None:
        """Returns what launches at once, without a decision in each call; None if there is one to make."""
        if self.pairs or self.run is None:
            return None
        return self.run if self.leading is None else self.leading.on_tensors(self.run, values)

    def launch(self, values: dict[str, Any]) -> None:
        """Launches the kernels one by one."""
        if self.run is None:
            pass
        elif self.leading is None:
            self.run(**values)
        else:
            for part in self.leading.parts(values):
                self.run(**part)


@dataclass(slots=True)
class Recorder:
    """Records the launches of a call as a list, once several calls were like it.

    It ends with calls that are no list, and with numbers that change from call to call.
    """

    cache: CallCache
    waits: int = WAIT
    recordings: int = 0

    def record(self, call: CheckedCall, values: dict[str, Any]) -> None:
        """Records the launches for the numbers of this call, if enough calls were like it."""
        self.waits -= 1
        if self.waits:
            return
        self.waits, self.recordings = WAIT, self.recordings + 1
        self.cache.release(call)
        if call.run is not None and self.recordings <= RECORDINGS:
            call.recording = self.recorded_call(call, values)
        if call.recording is None:
            call.recorder = None
            call.direct = call.direct_launch(values)
        else:
            self.cache.nbytes += call.recording.launches.arena.nbytes

    def recorded_call(self, call: CheckedCall, values: dict[str, Any]) -> RecordedCall | None:
        """Returns the launches of a call on arrays of one place as a list; None if they are none."""
        binder, cache = call.binder, self.cache
        signature = binder.signature
        names = [spec.name for spec in (*signature.inputs, *signature.outputs) if values[spec.name] is not None]
        kind = type(values[names[0]])
        if kind not in (np.ndarray, DeviceArray) or any(type(values[name]) is not kind for name in names):
            return None
        place = HOST if kind is np.ndarray else values[names[0]].device
        most = CACHE_BYTES - cache.nbytes
        launches = recorded(call.launch, values, names, frozenset(binder.effects), most, place)
        if launches is None or (len(launches.steps) < 2 and call.leading is None and not call.pairs):
            return None  # a single launch takes no longer without a list
        numbers = Numbers([name for name in signature.numbers if name not in cache.sizes], values)
        return RecordedCall(launches, tuple(names), numbers, numbers.of(values), binder.check_apart)


@dataclass(slots=True)
class CallCache:
    """The cache of the checked calls of a row, by their keys; it evicts the oldest call when it is full.

    Examples
    --------
    >>> from pypto import library as lib
    >>> x, g = np.ones((2, 8), np.float32), np.ones(8, np.float32)
    >>> calls = CallCache(lib.rows["rms_norm"].signature)
    >>> calls.key((x, g), {}, "") == calls.key((x + 1, g), {}, "") != calls.key((x[:1], g), {}, "")
    True
    """

    signature: Signature
    effects: tuple[str, ...] = ()
    session: Callable[[], Any] | None = None
    calls: dict[Key, CheckedCall] = field(default_factory=dict)
    nbytes: int = field(default=0, init=False)
    names: tuple[str, ...] = field(init=False)
    sizes: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        """Determines the numbers on whose values a check depends."""
        signature = self.signature
        conditions, arrays = signature.conditions, (*signature.inputs, *signature.outputs)
        used = frozenset[str]().union(
            *(one.names for one in conditions.relations),
            *(one.names for one in conditions.ranges),
            *(spec.names for spec in arrays),
        )
        self.names = signature.names
        pairs = {name for name, default in signature.numbers.items() if isinstance(default, tuple)}
        self.sizes = used & signature.numbers.keys() | pairs

    def key(self, args: tuple[Any, ...], given: Mapping[str, Any], version: str) -> Key | None:
        """Returns the key of a call; None if its checks depend on more than a key contains."""
        place = self.place()
        if place is NOWHERE or len(args) > len(self.names):
            return None
        facts: list[Any] = [version, len(args), *given, *(() if place is None else place.stream)]
        torch = None
        for name, value in (*zip(self.names, args, strict=False), *given.items()):
            kind = type(value)
            if (kind is np.ndarray and place is None) or (kind is DeviceArray and value.device is place):
                facts += value.dtype, value.shape, value.strides
                if name in self.effects:
                    facts.append(value.flags.writeable)
            elif value is None or kind in NUMBERS:
                facts.append((kind, repr(value)) if name in self.sizes else kind)
            elif name in self.sizes and kind in (tuple, list):
                facts += kind, repr(value)
            elif place is None and (torch := torch or torch_facts()) and kind in torch.kinds:
                keys = torch.dispatch_keys(value).raw_repr()
                facts += value.dtype, value.shape, value.stride(), value.requires_grad, keys
            else:
                return None
        if torch:
            if torch.is_watched():
                return None
            facts.append(torch.is_grad_enabled())
        return tuple(facts)

    def find(self, key: Key | None) -> CheckedCall | None:
        """Returns the checked call of a key."""
        return self.calls.get(key) if key is not None else None

    def keep(self, key: Key | None, call: CheckedCall) -> None:
        """Stores a call that passed all checks and has run."""
        if key is None:
            return
        if len(self.calls) >= MOST:
            oldest = self.calls.pop(next(iter(self.calls)), None)
            if oldest is not None:
                self.release(oldest)
        call.recorder, self.calls[key] = Recorder(self), call

    def release(self, call: CheckedCall) -> None:
        """Releases the recorded launches of a call with their memory."""
        if call.recording is not None:
            self.nbytes -= call.recording.launches.arena.nbytes
        call.recording = None

    def place(self) -> Any:
        """Returns the device that launches run on; None means the host, and `NOWHERE` that calls have no key."""
        mode = MODE.get()
        if mode is not PLAIN:
            is_plain = not (mode.interpret or mode.checked or mode.watch)
            return mode.device if is_plain and isinstance(mode.device, Device) else NOWHERE
        if self.session is None:
            from pypto.compile import session

            self.session = session
        place = self.session().devices.default
        return place if place is None or isinstance(place, Device) else NOWHERE


@dataclass(frozen=True, slots=True)
class TorchFacts:
    """The functions of torch from which keys are computed.

    The dispatch keys in a key distinguish plain memory from wrappers of torch.func, views that negate, and other
    special tensors.
    """

    kinds: tuple[type, ...]
    dispatch_keys: Callable[[Any], Any]
    is_grad_enabled: Callable[[], bool]
    modes: Callable[[], int]
    forward: Any

    def is_watched(self) -> bool:
        """Says whether a mode of the dispatcher sees calls, or torch computes tangents of forward mode."""
        return bool(self.modes()) or self.forward._current_level >= 0


@lru_cache(maxsize=1)
def loaded_torch() -> TorchFacts:
    """Returns the functions of the loaded torch."""
    torch = sys.modules["torch"]
    library, kinds, forward = torch._C, (torch.Tensor, torch.nn.Parameter), torch.autograd.forward_ad
    modes = library._len_torch_dispatch_stack
    return TorchFacts(kinds, library._dispatch_keys, torch.is_grad_enabled, modes, forward)


def torch_facts() -> TorchFacts | None:
    """Returns the functions of torch for keys; None if it is not loaded."""
    return loaded_torch() if hasattr(sys.modules.get("torch"), "nn") else None


def host_elements(x: Any) -> np.ndarray[Any, Any]:
    """Returns the elements of an array or of a tensor in host memory, for which a device is waited for."""
    array: np.ndarray[Any, Any] = x.detach().cpu().numpy() if hasattr(x, "detach") else np.asarray(x)
    return array
