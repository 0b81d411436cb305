"""Arrays that end where their pages end, or begin where these begin: what touches memory beyond them dies."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_PAGE = mmap.PAGESIZE


class Pages:
    """Memory with a page on either side that nobody may touch; to be kept as long as its arrays are used."""

    def __init__(self) -> None:
        self.maps: list[mmap.mmap] = []

    def array(self, values: Array, at_end: bool) -> Array:
        """A copy of a contiguous array, flush with one end of its pages."""
        size = -(-max(1, values.nbytes) // _PAGE) * _PAGE
        memory = mmap.mmap(-1, size + 2 * _PAGE)
        self.maps.append(memory)
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        for page in (start, start + _PAGE + size):
            assert protect(page, _PAGE, 0) == 0
        offset = _PAGE + (size - values.nbytes if at_end else 0)
        inside = np.frombuffer(memory, values.dtype, values.size, offset).reshape(values.shape)
        inside[...] = values
        return inside
