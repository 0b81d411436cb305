"""What the reference says beyond signature and docstring of the names that have several forms or need an explanation.

Each part has a heading, a text, and the body of a kernel over `p`, eight numbers from 1 to 8, that is run for the page.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True)
class Part:
    """A section of a page; `body` may be empty."""

    heading: str
    text: str
    body: str = ""


_PADDING = (
    "`boundary_check` names the dimensions in which the block may reach beyond the array. Without it the block must lie "
    'inside. `padding_option` is `"zero"` or `"nan"`; the latter needs a float.'
)

DETAILS: Final = MappingProxyType({
    "load": (
        Part("From an array, by slices",
             "`pto.load(array, offsets, shape, pad=0)` reads a block of an array. `offsets` has an index for each "
             "dimension, `shape` the sizes of the tile, which are constants. Elements beyond the array are `pad`. The slice "
             "`array[i : i + BLOCK]` is the same load with `pad=0`. No mask is needed.",
             "print(pto.load(p, (6,), (4,), pad=-1))\nprint(p[6:10])"),
        Part("Through pointers",
             "An array plus integers is a tile of pointers, one for each element. The result has the shape of the pointers. "
             "`mask` and `other` are broadcast to it, and `other` is cast to the element type. Where the mask is false, no "
             "memory is touched.",
             "offsets = pto.arange(0, 4) * 3\nprint(pto.load(p + offsets, mask=offsets < 8, other=-1))"),
        Part("A single element", "A pointer without a shape, or an array that is indexed by numbers, gives a number.",
             "print(pto.load(p + 2), p[2])"),
        Part("Through a block pointer", "See [`make_block_ptr`](make_block_ptr.md). " + _PADDING,
             "block = pto.make_block_ptr(p, (8,), (1,), (6,), (4,), (0,))\n"
             "print(pto.load(block, boundary_check=(0,), padding_option=\"zero\"))"),
        Part("Beyond the array",
             "A slice is clipped: what does not exist reads as `pad`. A pointer is not checked: without a mask, an offset "
             "beyond the array reads memory that is not yours. The interpreter and [checked mode](../checked.md) find it and "
             "name the index."),
        Part("Speed",
             "Pointers that are a number plus `pto.arange` are read as a vector, as a slice is. All others are gathered, one "
             "element at a time; `pypto.debug.explain` says which. See "
             "[Performance](../performance.md#slices-or-indices-that-the-compiler-understands)."),
    ),
    "store": (
        Part("To an array, by slices",
             "`pto.store(array, offsets, value)` writes a tile to a block of an array. What lies beyond the array is not "
             "written. `array[i : i + BLOCK] = value` is the same. The value is cast to the element type of the array; "
             "its sizes are those of the block, or 1.",
             "pto.store(p, (6,), pto.zeros((4,), pto.float32) - 1)\nprint(p[:])"),
        Part("Through pointers",
             "The value is broadcast to the shape of the pointers and cast to their element type. Where the mask is false, "
             "no memory is touched.",
             "offsets = pto.arange(0, 8)\npto.store(p + offsets, 0.0, mask=offsets % 2 == 0)\nprint(p[:])"),
        Part("Through a block pointer",
             "`boundary_check` names the dimensions in which the block may reach beyond the array; what lies beyond is not "
             "written.",
             "block = pto.make_block_ptr(p, (8,), (1,), (6,), (4,), (0,))\n"
             "pto.store(block, pto.zeros((4,), pto.float32), boundary_check=(0,))\nprint(p[:])"),
        Part("Order",
             "A program sees its own stores in its later loads. Two programs must not store to one element without atomics: "
             "which value stays is undefined. The interpreter and [checked mode](../checked.md) report it. Two elements of "
             "one store that name the same place leave one of the two values."),
    ),
    "sort": (
        Part("Order",
             "NaN is last, ascending and descending. -0.0 comes before 0.0. Equal numbers cannot be told apart, so the order "
             "is the same on every run; [`argsort`](argsort.md) is stable and gives their places.",
             "x = pto.where(p[:] == 3, float(\"nan\"), -p[:])\nprint(pto.sort(x))\nprint(pto.sort(x, descending=True))"),
        Part("Along another dimension", "`dim` counts from the end if it is negative. Each row along it is sorted by itself.",
             "t = pto.reshape(9 - p[:], (2, 4))\nprint(pto.sort(t, dim=0))\nprint(pto.sort(t, dim=1))"),
        Part("Sizes and speed",
             "Any size, not only powers of two. A tile is sorted in registers by a network of comparisons, of which the number "
             "grows as n log² n. For a few of the greatest elements, [`topk`](topk.md) does less work."),
    ),
    "topk": (
        Part("Order",
             "The greatest element is first. NaN counts as less than every number, so it comes last. `k` is a constant from "
             "1 to the size of the dimension.",
             "x = pto.where(p[:] == 8, float(\"nan\"), p[:])\nprint(pto.topk(x, 3))\nprint(pto.topk(x, 8))"),
        Part("Along another dimension", "The dimension has `k` elements in the result; all others stay as they are.",
             "t = pto.reshape(p[:], (2, 4))\nprint(pto.topk(t, 2, dim=1))\nprint(pto.topk(t, 1, dim=0))"),
        Part("The places of the elements", "[`argsort`](argsort.md) in descending order gives them, in the same order.",
             "print(pto.argsort(p[:], descending=True)[:3])"),
        Part("The least elements", "They are the greatest of the negated ones.", "print(-pto.topk(-p[:], 3))"),
    ),
    "rand": (
        Part("Seeds and offsets",
             "There is no hidden state: the same seed and offset give the same number, on every machine and in every "
             "program. Give each element an offset of its own, usually its index in the array.",
             "offsets = pto.program_id(0) * 4 + pto.arange(0, 4)\nprint(pto.rand(7, offsets))\nprint(pto.rand(8, offsets))"),
        Part("Range", "Numbers are in [0, 1): 0 may occur, 1 does not. They are multiples of about 2⁻³¹, rounded to float32."),
        Part("Other distributions",
             "[`randn`](randn.md) is normal with mean 0 and deviation 1, [`randint`](randint.md) gives 32 random bits. "
             "Uniform in another range is arithmetic.",
             "offsets = pto.arange(0, 4)\nprint(pto.rand(7, offsets) * 10 - 5)\nprint(pto.randn(7, offsets))"),
        Part("Four at once", "One run of Philox gives four numbers; [`rand4x`](rand4x.md) returns all of them.",
             "a, b, c, d = pto.rand4x(7, pto.arange(0, 2))\nprint(a, b, c, d)"),
        Part("Dropout", "A mask of random numbers that the backward pass makes again from the seed, without storing it.",
             "keep = pto.rand(7, pto.arange(0, 8)) > 0.5\nprint(pto.where(keep, p[:] / 0.5, 0.0))"),
    ),
})  # fmt: skip
