"""Arrays with a fence on either side, which shows who writes beyond them."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
BYTES, MARK = 128, 0xA5


class Fences:
    """Makes arrays in fenced memory; at the end of the `with` block every fence has to stand as it was."""

    def __init__(self) -> None:
        self.memory: list[Array] = []

    def around(self, array: Array) -> Array:
        """A copy of a contiguous array."""
        memory = np.full(array.nbytes + 2 * BYTES, MARK, np.uint8)
        self.memory.append(memory)
        inside = memory[BYTES : BYTES + array.nbytes].view(array.dtype).reshape(array.shape)
        inside[...] = array
        return inside

    def __enter__(self) -> Fences:
        return self

    def __exit__(self, *failure: object) -> None:
        for memory in self.memory:
            for side in (memory[:BYTES], memory[-BYTES:]):
                np.testing.assert_array_equal(side, MARK, err_msg="memory beyond an array was written")
