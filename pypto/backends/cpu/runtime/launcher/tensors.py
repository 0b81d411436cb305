"""The layout of torch's tensors, found by looking at tensors of known contents.

A tensor's Python object holds the address of a C++ object. That has the set of dispatch keys, in which every kind of
tensor that is not plain memory has a bit; the address of the version counter; and all that a launch reads. Where one
field is not found beyond doubt there is no layout, and tensors go through Python.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

_HEADS: Final = (16, 24)  # where the address of the C++ object may lie in the Python object
_WORDS: Final = range(1, 24)  # of the C++ object, behind the address of its virtual functions
_SHAPE: Final = (2, 3, 4, 5, 6)  # as many axes as lie in the object itself, so that no word of it is left undefined
INSIDE: Final = len(_SHAPE)  # most axes of a tensor whose sizes lie in its object
_NEVER: Final = -1  # the address of no function
_SAMPLES: Final = 4
_DTYPES: Final = ("float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "bool")
_COUNTER: Final = (2, 3, 4)  # half words of a version counter in which the version may lie
_REQUIRES_GRAD: Final = "_ZNK3c1010TensorImpl13requires_gradEv"  # c10::TensorImpl::requires_grad() const
_GRADIENTS_ON: Final = "_ZN3c108GradMode10is_enabledEv"  # c10::GradMode::is_enabled()
_MODES: Final = "_ZN3c104impl20TorchDispatchModeTLS9stack_lenEv"  # c10::impl::TorchDispatchModeTLS::stack_len()
_PROFILED: Final = "_ZN2at23hasThreadLocalCallbacksEv"  # at::hasThreadLocalCallbacks()


@dataclass(frozen=True, slots=True)
class Layout:
    """Offsets in bytes of the C++ object's address and of its fields, and the addresses of four functions of torch."""

    impl: int
    keys: int
    counter: int
    version: int  # in the counter
    storage: int
    data: int  # in the storage
    frees: int  # in the storage: the address of the function that frees its memory
    lazy: int  # that function of a lazy copy, which shares its memory with another tensor until one is written
    offset: int
    sizes: int  # the number of axes, then sizes, then strides
    dtype: int  # a number of two bytes
    requires_grad: int  # of a tensor
    gradients_on: int
    modes: int  # how many modes of the dispatcher are active
    profiled: int  # whether calls of this thread are recorded, as by a profiler

    def keys_of(self, tensor: Any) -> int:
        """The set of dispatch keys of a tensor."""
        return words_of(tensor)[self.keys // 8]

    def read(self, tensor: Any) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        """Address, sizes and strides of a tensor of few axes, as native code reads them."""
        words = words_of(tensor)
        first = self.sizes // 8 + 1
        axes = words[first - 1]
        sizes = words[first : first + axes]
        strides = words[first + INSIDE : first + INSIDE + axes]
        start = word(words[self.storage // 8], self.data)
        return start + words[self.offset // 8] * tensor.element_size(), tuple(sizes), tuple(map(signed, strides))

    def dtype_of(self, tensor: Any) -> int:
        """The number of a tensor's dtype."""
        return halves_of(tensor)[self.dtype // 2]

    def is_lazy(self, tensor: Any) -> bool:
        """Whether the tensor is a lazy copy."""
        return word(words_of(tensor)[self.storage // 8], self.frees) == self.lazy

    def kind_of(self, tensor: Any) -> int:
        """What native code compares of a tensor's elements: their dtype, and behind it the logarithm of their size."""
        size: int = tensor.element_size()
        return (size.bit_length() - 1) << 32 | self.dtype_of(tensor)

    def record(self, tensor: Any, written: bool = False) -> Any:
        """The words of `struct layout` for a tensor. A lazy copy may be read, but not written: torch copies it then."""
        places = (self.impl, self.keys, self.keys_of(tensor), self.dtype, self.storage, self.data, self.offset,
            self.sizes, self.frees, self.lazy if written else _NEVER)  # fmt: skip
        return (ctypes.c_int64 * len(places))(*map(signed, places))

    def can_read(self, tensor: Any, written: bool = False) -> bool:
        """Whether the tensor is what native code reads of it, and may write to."""
        if tensor.dim() > INSIDE or (written and self.is_lazy(tensor)):
            return False
        return self.read(tensor) == (tensor.data_ptr(), tuple(tensor.shape), tuple(tensor.stride()))


class UnknownLayoutError(Exception):
    """A field is in doubt, as it is while torch traces: tensors go through Python then."""


def is_torch(value: Any) -> bool:
    """Whether an argument is a tensor of torch's."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


@functools.lru_cache(maxsize=1)
def tensor_layout() -> Layout:
    """The layout of this process's torch.

    Raises
    ------
    UnknownLayoutError
        Where one part of it is in doubt.
    """
    torch = sys.modules["torch"]
    with torch.inference_mode(False), torch.no_grad():
        layout = find_layout(torch)
        if not confirmed(torch, layout):
            raise UnknownLayoutError
    return layout


def find_layout(torch: Any) -> Layout:
    """The layout, field by field."""
    x = torch.zeros(_SHAPE)
    if type(x) is not torch.Tensor:  # in a mode in which torch makes others
        raise UnknownLayoutError
    impl = only(_HEADS, lambda at: word(id(x), at) == x._cdata)
    keys = only(_WORDS, lambda n: all(words_of(t)[n] == raw_keys(torch, t) for t in (x, torch._neg_view(x))))
    counter, storage = find_counter(torch), find_storage(torch)
    version = find_version(torch, 8 * counter)
    data = find_data(torch)
    offset, sizes = find_offset(torch), find_sizes(torch)
    frees, lazy = find_lazy(torch, data)
    places = (8 * counter, version, 8 * storage, data, frees, lazy, 8 * offset, 8 * sizes, find_dtype(torch))
    return Layout(impl, 8 * keys, *places, *find_functions(torch))


def find_storage(torch: Any) -> int:
    """The word with the address of a tensor's storage."""
    tensors = [torch.zeros(_SHAPE)[n:] for n in range(2)]
    return only(_WORDS, lambda n: all(words_of(t)[n] == t.untyped_storage()._cdata for t in tensors))


def find_data(torch: Any) -> int:
    """The offset, in a storage, of the address of its memory: of a numpy array, whose owner has another address."""
    storages = [torch.from_numpy(np.zeros(9 + n)).untyped_storage() for n in range(_SAMPLES)]
    return 8 * only(range(1, 6), lambda n: all(word(s._cdata, 8 * n) == s.data_ptr() for s in storages))


def find_lazy(torch: Any, data: int) -> tuple[int, int]:
    """The offset, in a storage, of the function that frees its memory, and what that is in lazy copies alone."""
    plain = [torch.zeros(_SHAPE), torch.from_numpy(np.zeros(9)), torch.zeros(3, dtype=torch.int8)]
    bases = [torch.zeros(_SHAPE), torch.zeros(9)]
    copies = [torch._lazy_clone(base) for base in bases]
    storages, copied = ([t.untyped_storage()._cdata for t in tensors] for tensors in (plain, copies))

    def is_function(offset: int) -> bool:
        functions = {word(storage, offset) for storage in copied}
        return len(functions) == 1 and not functions & {0, *(word(storage, offset) for storage in storages)}

    offset = only((data + 8, data + 16), is_function)
    return offset, word(copied[0], offset)


def find_offset(torch: Any) -> int:
    """The word with the number of elements before the first one of a view."""
    views = [torch.zeros(2000)[n : n + 720].view(_SHAPE) for n in (777, 1013, 1234)]
    return only(_WORDS, lambda n: all(words_of(t)[n] == t.storage_offset() for t in views))


def find_sizes(torch: Any) -> int:
    """The word with the number of axes; sizes and strides follow."""
    x = torch.zeros(_SHAPE)
    tensors = [(words_of(t), (t.dim(), *t.shape, *t.stride())) for t in (x, x.permute(4, 1, 3, 0, 2), x[:, ::2])]
    return only(_WORDS, lambda n: all(words[n : n + len(sizes)] == sizes for words, sizes in tensors))


def find_dtype(torch: Any) -> int:
    """The offset of a 16-bit number that is the same for tensors of one dtype alone."""
    pairs = [[halves_of(torch.zeros(_SHAPE, dtype=getattr(torch, name))) for _ in range(2)] for name in _DTYPES]
    places = range(4 * _WORDS.start, 4 * _WORDS.stop)

    def is_dtype(n: int) -> bool:
        return all(a[n] == b[n] for a, b in pairs) and len({a[n] for a, _ in pairs}) == len(pairs)

    return 2 * only(places, is_dtype)


def find_counter(torch: Any) -> int:
    """The word that a tensor shares with its views but not with `.data`, and that is 0 in inference mode."""
    with torch.inference_mode():
        uncounted = [words_of(torch.zeros(_SHAPE)) for _ in range(_SAMPLES)]
    tensors = [torch.zeros(_SHAPE) for _ in range(_SAMPLES)]
    related = [tuple(map(words_of, (t, t[1:], t.data))) for t in tensors]

    def is_counter(n: int) -> bool:
        shared = all(base[n] == view[n] and base[n] not in (0, data[n]) for base, view, data in related)
        return shared and not any(words[n] for words in uncounted)

    return only(_WORDS, is_counter)


def find_version(torch: Any, counter: int) -> int:
    """The offset of the version in the counter, from tensors of known versions."""
    counted = [torch.zeros(3) for _ in range(3)]
    for times, tensor in zip((3, 11, 1027), counted, strict=True):
        for _ in range(times):
            torch.autograd.graph.increment_version(tensor)
    places = [word(t._cdata, counter) for t in counted]
    halves = [(ctypes.c_uint32 * (_COUNTER[-1] + 2)).from_address(at) for at in places]
    return 4 * only(range(2, len(halves[0])), lambda n: [h[n] for h in halves] == [t._version for t in counted])


def find_functions(torch: Any) -> tuple[int, ...]:
    """The addresses of four functions: see `Layout`. Each is called, to see that it is what its name says."""
    try:
        library = ctypes.CDLL(str(torch._C.__file__))
        names = (_REQUIRES_GRAD, _GRADIENTS_ON, _MODES, _PROFILED)
        requires, records, modes, profiled = (getattr(library, name) for name in names)
    except (AttributeError, OSError):
        raise UnknownLayoutError from None
    requires.restype, requires.argtypes = ctypes.c_bool, (ctypes.c_void_p,)
    records.restype, records.argtypes = ctypes.c_bool, ()
    modes.restype, modes.argtypes = ctypes.c_int64, ()
    profiled.restype, profiled.argtypes = ctypes.c_bool, ()
    leaf = torch.zeros(3, requires_grad=True)
    with torch.enable_grad():
        tensors = [leaf, leaf * 1, leaf[1:], torch.zeros(3), torch.zeros(3)[1:], leaf.detach()]
        agrees = records() and [requires(t._cdata) for t in tensors] == [t.requires_grad for t in tensors]
    with torch.no_grad():
        agrees = agrees and not records()
    before = modes()
    with torch.utils._python_dispatch.TorchDispatchMode():
        agrees = agrees and modes() == before + 1 == torch._C._len_torch_dispatch_stack()
    agrees = agrees and profiled() == torch.autograd._profiler_enabled()
    functions = (requires, records, modes, profiled)
    addresses = tuple(ctypes.cast(function, ctypes.c_void_p).value or 0 for function in functions)
    if not agrees or not all(addresses):
        raise UnknownLayoutError
    return addresses


def confirmed(torch: Any, layout: Layout) -> bool:
    """Whether torch sees a version that is counted in memory, on tensors that were not looked at before."""
    base = torch.zeros(4, 5)
    view = base.T[1:3]
    place = word(view._cdata, layout.counter) + layout.version
    before = base._version
    ctypes.c_uint32.from_address(place).value += 2
    tensors = [base, view, torch.nn.Parameter(torch.zeros(2, 2)), torch.zeros((), dtype=torch.int8), torch.zeros(0, 3),
        torch.from_numpy(np.zeros((3, 4), np.int16)[1:]), torch.zeros(1, 3).expand(7, 3)]  # fmt: skip
    same_keys = all(layout.keys_of(t) == raw_keys(torch, t) for t in tensors)
    same_dtypes = all((layout.dtype_of(t) == layout.dtype_of(base)) == (t.dtype == base.dtype) for t in tensors)
    counted = base._version == view._version == before + 2
    return counted and same_keys and same_dtypes and all(map(layout.can_read, tensors))


def raw_keys(torch: Any, tensor: Any) -> int:
    """The set of dispatch keys, by torch."""
    return int(torch._C._dispatch_keys(tensor).raw_repr())


def words_of(tensor: Any) -> Sequence[int]:
    """A copy of the words of a tensor's C++ object."""
    return tuple((ctypes.c_uint64 * _WORDS.stop).from_address(tensor._cdata))


def halves_of(tensor: Any) -> Sequence[int]:
    """A copy of its 16-bit words."""
    return tuple((ctypes.c_uint16 * (4 * _WORDS.stop)).from_address(tensor._cdata))


def signed(number: int) -> int:
    """A word as a signed integer."""
    return number - 2**64 if number >= 2**63 else number


def word(address: int, offset: int) -> int:
    """The word at an address."""
    return ctypes.c_uint64.from_address(address + offset).value


def only(numbers: Sequence[int], holds: Callable[[int], bool]) -> int:
    """The one number for which something holds.

    Raises
    ------
    UnknownLayoutError
        Where there are several, or none.
    """
    matching = [n for n in numbers if holds(n)]
    if len(matching) != 1:
        raise UnknownLayoutError
    return matching[0]
