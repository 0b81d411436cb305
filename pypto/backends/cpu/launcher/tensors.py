"""Where objects of torch keep what the native launcher reads of them, found by looking at tensors of known contents.

A tensor's Python object holds the address of a C++ object. In that lie the set of dispatch keys, in which every kind of
tensor that is no plain memory has a bit, and the address of the version counter. Where one of them is not found beyond
doubt, there is no layout, and launches on tensors go through Python.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

_HEADS: Final = (16, 24)  # where the address of the C++ object may lie in the Python object
_WORDS: Final = range(1, 24)  # of the C++ object, behind the address of its virtual functions
_SHAPE: Final = (2, 3, 4, 5, 6)  # as many axes as lie in the object itself, so that no word of it is left undefined
_SAMPLES: Final = 4
_COUNTER: Final = (2, 3, 4)  # half words of a version counter in which the version may lie
_REQUIRES_GRAD: Final = "_ZNK3c1010TensorImpl13requires_gradEv"  # c10::TensorImpl::requires_grad() const
_GRADIENTS_ON: Final = "_ZN3c108GradMode10is_enabledEv"  # c10::GradMode::is_enabled()


@dataclass(frozen=True, slots=True)
class Layout:
    """Offsets in bytes, of the C++ object's address and in that object, and addresses of two functions of torch's."""

    impl: int
    keys: int
    counter: int
    version: int  # in the counter
    requires_grad: int
    gradients_on: int

    def keys_of(self, tensor: Any) -> int:
        """The set of dispatch keys of a tensor."""
        return words_of(tensor)[self.keys // 8]


def is_torch(value: Any) -> bool:
    """Whether an argument is a tensor of torch's."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


@functools.lru_cache(maxsize=1)
def tensor_layout() -> Layout | None:
    """The layout of this process's torch; None where one part of it is in doubt."""
    torch = sys.modules["torch"]
    with torch.inference_mode(False), torch.no_grad():
        found = find_layout(torch)
    return found if found is not None and confirmed(torch, found) else None


def find_layout(torch: Any) -> Layout | None:
    x = torch.zeros(_SHAPE)
    impl = next((at for at in _HEADS if word(id(x), at) == x._cdata), None)
    keys = only(_WORDS, lambda n: all(words_of(t)[n] == raw_keys(torch, t) for t in (x, torch._neg_view(x))))
    counter, functions = find_counter(torch), find_functions(torch)
    if impl is None or keys is None or counter is None or functions is None:
        return None
    version = find_version(torch, 8 * counter)
    return None if version is None else Layout(impl, 8 * keys, 8 * counter, version, *functions)


def find_counter(torch: Any) -> Any:
    """The word that a tensor shares with its views and not with `.data`, and that is 0 where nobody counts."""
    with torch.inference_mode():
        uncounted = [words_of(torch.zeros(_SHAPE)) for _ in range(_SAMPLES)]
    tensors = [torch.zeros(_SHAPE) for _ in range(_SAMPLES)]
    related = [tuple(map(words_of, (t, t[1:], t.data))) for t in tensors]

    def is_counter(n: int) -> bool:
        shared = all(own[n] == view[n] and own[n] not in (0, data[n]) for own, view, data in related)
        return shared and not any(words[n] for words in uncounted)

    return only(_WORDS, is_counter)


def find_version(torch: Any, counter: int) -> int | None:
    """The half word of the counter that is the version of tensors of known versions."""
    counted = [torch.zeros(3) for _ in range(3)]
    for times, tensor in zip((3, 11, 1027), counted, strict=True):
        for _ in range(times):
            torch.autograd.graph.increment_version(tensor)
    places = [word(t._cdata, counter) for t in counted]
    halves = [(ctypes.c_uint32 * (_COUNTER[-1] + 2)).from_address(at) for at in places]
    found = only(range(2, len(halves[0])), lambda n: [h[n] for h in halves] == [t._version for t in counted])
    return None if found is None else 4 * found


def find_functions(torch: Any) -> tuple[int, int] | None:
    """The addresses of two functions: a tensor requires a gradient, and autograd records in this thread."""
    try:
        library = ctypes.CDLL(str(torch._C.__file__))
        requires, records = getattr(library, _REQUIRES_GRAD), getattr(library, _GRADIENTS_ON)
    except (AttributeError, OSError):
        return None
    requires.restype, requires.argtypes = ctypes.c_bool, (ctypes.c_void_p,)
    records.restype, records.argtypes = ctypes.c_bool, ()
    leaf = torch.zeros(3, requires_grad=True)
    with torch.enable_grad():
        tensors = [leaf, leaf * 1, leaf[1:], torch.zeros(3), torch.zeros(3)[1:], leaf.detach()]
        right = records() and [requires(t._cdata) for t in tensors] == [t.requires_grad for t in tensors]
    with torch.no_grad():
        right = right and not records()
    found = [ctypes.cast(function, ctypes.c_void_p).value for function in (requires, records)]
    return (found[0] or 0, found[1] or 0) if right and all(found) else None


def confirmed(torch: Any, layout: Layout) -> bool:
    """Whether counting in memory is what torch sees, on tensors that were not looked at before."""
    base = torch.zeros(4, 5)
    view = base.T[1:3]
    place = word(view._cdata, layout.counter) + layout.version
    before = base._version
    ctypes.c_uint32.from_address(place).value += 2
    tensors = [base, view, torch.nn.Parameter(torch.zeros(2, 2)), torch.zeros((), dtype=torch.int8)]
    same_keys = all(layout.keys_of(t) == raw_keys(torch, t) for t in tensors)
    return base._version == view._version == before + 2 and same_keys


def raw_keys(torch: Any, tensor: Any) -> int:
    return int(torch._C._dispatch_keys(tensor).raw_repr())


def words_of(tensor: Any) -> Sequence[int]:
    """A copy of the words of a tensor's C++ object."""
    return tuple((ctypes.c_uint64 * _WORDS.stop).from_address(tensor._cdata))


def word(address: int, offset: int) -> int:
    return ctypes.c_uint64.from_address(address + offset).value


def only(numbers: range, holds: Callable[[int], bool]) -> int | None:
    """The one number for which something holds; None where there are several, or none."""
    found = [n for n in numbers if holds(n)]
    return found[0] if len(found) == 1 else None
