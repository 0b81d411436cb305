"""The suite `convolution`: images by channels, with windows of 1 to 7 pixels, strides, and one channel at a time.

The suite `array_convolution` has functions of arrays, `pto.fuse` of `pypto.arrays.conv2d`, for the shapes of ResNet-50
and of networks with depthwise convolutions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from benchmarks.data import bind, random
from benchmarks.kernels import convolution as kernels
from benchmarks.peers import torch_peers
from benchmarks.runner import Bar, Case, Impl, Missing, Row, Suite
from pypto import fuse
from pypto.arrays import conv2d


class Shape(NamedTuple):
    """Images, channels, rows and columns of pixels, filters (0 for one of each channel), window and stride."""

    n: int
    c: int
    pixels: int
    filters: int
    size: int
    stride: int = 1

    @property
    def channels_of_filter(self) -> int:
        return self.c if self.filters else 1

    @property
    def out(self) -> tuple[int, int, int, int]:
        across = self.pixels // self.stride
        return self.n, self.filters or self.c, across, across

    @property
    def flops(self) -> float:
        return 2.0 * np.prod(self.out) * self.channels_of_filter * self.size**2

    @property
    def bytes(self) -> float:
        return 4.0 * (self.n * self.c * self.pixels**2 + np.prod(self.out))


def convolution_case(*numbers: int) -> Case:
    """Ours has the channels last; torch gets the image in both of its orders."""
    shape = Shape(*numbers)
    n, c, pixels, filters, size, stride = shape
    x = random(n, c, pixels, pixels)
    theirs = random(filters or c, shape.channels_of_filter, size, size, spread=1)
    image, weight = (np.ascontiguousarray(v) for v in (x.transpose(0, 2, 3, 1), theirs.transpose(2, 3, 1, 0)))
    out = np.empty([shape.out[d] for d in (0, 2, 3, 1)], np.float32)
    result = out.transpose(0, 3, 1, 2)
    if filters:
        workspace = np.empty(kernels.padded_shape(image.shape, size) if c <= kernels.FEW_CHANNELS else 0, np.float32)
        ours = bind(result, kernels.convolution, image, weight, out, stride, workspace)
    else:
        ours = bind(result, kernels.depthwise, image, weight[:, :, 0], out, stride)
    groups = 1 if filters else c

    return Case(
        ours, peers_of(x, theirs, stride, size // 2, groups), partial(reference, x, theirs, stride, groups), [out]
    )


def array_case(*numbers: int) -> Case:
    """A function of arrays whose channels are last; torch gets the image in both of its orders."""
    shape = Shape(*numbers)
    n, c, pixels, filters, size, stride = shape
    x = random(n, c, pixels, pixels)
    weight = random(filters or c, shape.channels_of_filter, size, size, spread=1)
    image, ours = (np.ascontiguousarray(v) for v in (x.transpose(0, 2, 3, 1), weight.transpose(2, 3, 1, 0)))
    groups = 1 if filters else c
    fused = fuse(partial(conv2d, stride=stride, padding=size // 2, groups=groups, data_format="NHWC"))
    peers = peers_of(x, weight, stride, size // 2, groups)
    return Case(lambda: fused(image, ours).transpose(0, 3, 1, 2), peers, partial(reference, x, weight, stride, groups))


def peers_of(x: Any, weight: Any, stride: int, padding: int, groups: int) -> Mapping[str, Impl | Missing]:
    """A convolution by torch, on images in both orders."""

    def by_torch(torch: Any) -> Mapping[str, Impl]:
        tx, tw, last = torch.from_numpy(x), torch.from_numpy(weight), torch.channels_last
        given = {"torch": (tx, tw), "torch channels last": (tx.to(memory_format=last), tw.to(memory_format=last))}
        conv = partial(torch.nn.functional.conv2d, stride=stride, padding=padding, groups=groups)
        return {name: partial(conv, *pair) for name, pair in given.items()}

    return torch_peers(by_torch)


def reference(x: Any, weight: Any, stride: int, groups: int) -> Any:
    """The convolution in float64, with a padding of half a window."""
    size, (_, _, height, width) = weight.shape[2], x.shape
    edge = size // 2
    wide = np.pad(x.astype(float), ((0, 0), (0, 0), (edge, edge), (edge, edge)))
    total: Any = 0.0
    for i in range(size):
        for j in range(size):
            part = wide[:, :, i : i + height : stride, j : j + width : stride]
            w = weight[:, :, i, j].astype(float)
            total = total + (part * w[:, 0, None, None] if groups > 1 else np.einsum("oc,nchw->nohw", w, part))
    return total


def row(title: str, shape: Shape, case: Callable[..., Case] = convolution_case) -> Row:
    """A row; each is a family of its own kind of convolution."""
    what = f"{shape.n} x {shape.c} x {shape.pixels}²" + (f", {shape.filters}" if shape.filters else "")
    if case is array_case:  # its title does not tell the window
        what += f", {shape.size} x {shape.size}" + (f" / {shape.stride}" if shape.stride > 1 else "")
    build, intensity = partial(case, *shape), float(shape.flops / shape.bytes)
    tolerance = 1e-5 * shape.channels_of_filter * shape.size
    return Row(title, what, shape.flops, "flop", "fma", tolerance, build, (Bar("", 0.95),), (0,), title, intensity)


CONVOLUTION: Final = Suite("convolution", (
    row("convolution 1 x 1", Shape(8, 64, 56, 256, 1)),
    row("convolution 1 x 1", Shape(8, 256, 56, 64, 1)),
    row("convolution 1 x 1 stride 2", Shape(8, 256, 56, 128, 1, 2)),
    row("convolution 3 x 3", Shape(8, 128, 28, 128, 3)),
    row("convolution 3 x 3", Shape(8, 256, 14, 256, 3)),
    row("convolution 3 x 3 stride 2", Shape(8, 128, 56, 128, 3, 2)),
    row("convolution 3 x 3 stride 2", Shape(8, 256, 28, 256, 3, 2)),
    row("convolution 5 x 5", Shape(8, 64, 28, 64, 5)),
    row("convolution of colours 3 x 3", Shape(8, 3, 224, 32, 3)),
    row("convolution of colours 7 x 7 stride 2", Shape(8, 3, 224, 64, 7, 2)),
    row("convolution depthwise 3 x 3", Shape(8, 128, 56, 0, 3)),
    row("convolution depthwise 3 x 3 stride 2", Shape(8, 128, 56, 0, 3, 2)),
    row("convolution depthwise 5 x 5", Shape(8, 128, 28, 0, 5)),
), (), 0.0, 0.95)  # fmt: skip
RESNET: Final = (
    (8, 3, 224, 64, 7, 2), (8, 64, 56, 64, 1), (8, 64, 56, 64, 3), (8, 64, 56, 256, 1), (8, 256, 56, 128, 1),
    (8, 128, 56, 128, 3, 2), (8, 128, 28, 128, 3), (8, 256, 28, 256, 3, 2), (8, 256, 14, 256, 3),
    (8, 256, 56, 512, 1, 2), (8, 512, 14, 512, 3, 2), (8, 512, 7, 512, 3),
)  # fmt: skip
DEPTHWISE: Final = (
    (8, 32, 112, 0, 3), (8, 64, 112, 0, 3, 2), (8, 128, 56, 0, 3), (8, 128, 56, 0, 3, 2), (8, 128, 28, 0, 5),
    (8, 512, 14, 0, 3),
)  # fmt: skip
ARRAY_CONVOLUTION: Final = Suite(
    "array_convolution",
    tuple(
        row(title, Shape(*numbers), array_case)
        for title, shapes in (("conv2d of ResNet-50", RESNET), ("depthwise conv2d", DEPTHWISE))
        for numbers in shapes
    ),
    (),
    0.0,
    0.95,
)
