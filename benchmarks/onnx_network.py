"""A convolution network in an ONNX file, computed node by node in numpy; its convolutions by functions that are given.

Only what the networks of PP-OCR need is here: other operators are an error that names them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from pypto.quant import Convolution

Array = np.ndarray[Any, Any]
Attributes = Mapping[str, Any]


@dataclass(frozen=True)
class Node:
    """An operation: its type, the names of its inputs and of its output, and its attributes."""

    op: str
    inputs: tuple[str, ...]
    output: str
    attributes: Attributes


@dataclass(frozen=True)
class Network:
    """A graph of nodes in the order in which they compute, and its constants."""

    nodes: tuple[Node, ...]
    constants: Mapping[str, Array]
    input: str
    output: str
    metadata: Mapping[str, str]

    @staticmethod
    def load(path: Path) -> Network:
        """Read a file."""
        import onnx
        from onnx import numpy_helper

        model = onnx.load(str(path))
        graph = model.graph
        constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
        nodes = []
        for node in graph.node:
            attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
            if node.op_type == "Constant":
                constants[node.output[0]] = numpy_helper.to_array(attributes["value"])
            else:
                nodes.append(Node(node.op_type, tuple(node.input), node.output[0], attributes))
        metadata = {row.key: row.value for row in model.metadata_props}
        return Network(tuple(nodes), constants, graph.input[0].name, graph.output[0].name, metadata)

    def convolutions(self) -> Iterator[Convolution]:
        """Its convolutions, under the names of their outputs."""
        for node in self.nodes:
            if node.op == "Conv":
                weight, *bias = (self.constants[name] for name in node.inputs[1:])
                attributes = node.attributes
                yield Convolution(
                    node.output, weight, bias[0] if bias else None, tuple(attributes["strides"]),
                    tuple(attributes["pads"]), attributes["group"],
                )  # fmt: skip

    def run(self, x: Array, convolve: Callable[[str, Array], Array]) -> Array:
        """The output for an input; ``convolve(name, x)`` computes a convolution."""
        values = {**self.constants, self.input: x}
        for node in self.nodes:
            inputs = [values[name] if name else None for name in node.inputs]
            if node.op == "Conv":
                values[node.output] = convolve(node.output, inputs[0])
            else:
                values[node.output] = OPERATIONS[node.op](node.attributes, *inputs)
        return values[self.output]


# --- operations -------------------------------------------------------------------------------------------------------


def batch_normalization(attributes: Attributes, x: Array, scale: Array, bias: Array, mean: Array, var: Array) -> Array:
    factor = scale / np.sqrt(var + np.float32(attributes["epsilon"]))
    return x * factor[:, None, None] + (bias - mean * factor)[:, None, None]


def hard_sigmoid(attributes: Attributes, x: Array) -> Array:
    return np.clip(np.float32(attributes["alpha"]) * x + np.float32(attributes["beta"]), 0, 1)


def softmax(attributes: Attributes, x: Array) -> Array:
    e = np.exp(x - x.max(attributes["axis"], keepdims=True))
    return e / e.sum(attributes["axis"], keepdims=True)


def pooled(reduce: Callable[..., Array]) -> Callable[[Attributes, Array], Array]:
    """Reductions of windows that do not overlap and are not padded."""

    def pool(attributes: Attributes, x: Array) -> Array:
        (h, w), (n, c) = attributes["kernel_shape"], x.shape[:2]
        assert list(attributes["strides"]) == [h, w]
        assert not any(attributes["pads"])
        rows, columns = x.shape[2] // h, x.shape[3] // w
        return reduce(x[:, :, : rows * h, : columns * w].reshape(n, c, rows, h, columns, w), axis=(3, 5))

    return pool


def nearest(_: Attributes, x: Array, roi: Array | None, scales: Array) -> Array:
    """Resize by whole factors: each pixel is repeated."""
    del roi
    return x.repeat(int(scales[2]), axis=2).repeat(int(scales[3]), axis=3)


def transposed_convolution(attributes: Attributes, x: Array, weight: Array) -> Array:
    """Windows of the size of the strides, which do not overlap."""
    assert list(attributes["strides"]) == list(attributes["kernel_shape"])
    (n, _, h, w), (_, out, kh, kw) = x.shape, weight.shape
    return np.einsum("nchw,coij->nohiwj", x, weight, optimize=True).reshape(n, out, h * kh, w * kw)


def sliced(_: Attributes, x: Array, starts: Array, ends: Array, axes: Array, steps: Array | None = None) -> Array:
    places = [slice(None)] * x.ndim
    for i, axis in enumerate(axes):
        places[axis] = slice(int(starts[i]), int(ends[i]), None if steps is None else int(steps[i]))
    return x[tuple(places)]


def reshaped(_: Attributes, x: Array, shape: Array) -> Array:
    sizes = [x.shape[i] if size == 0 else int(size) for i, size in enumerate(shape)]
    return x.reshape(sizes)


CASTS: Final = {6: np.int32, 7: np.int64}
OPERATIONS: Final[Mapping[str, Callable[..., Array]]] = MappingProxyType(
    {
        "Add": lambda _, x, y: x + y,
        "Sub": lambda _, x, y: x - y,
        "Mul": lambda _, x, y: x * y,
        "Div": lambda _, x, y: x / y if x.dtype.kind == "f" else x // y,
        "Pow": lambda _, x, y: x**y,
        "Sqrt": lambda _, x: np.sqrt(x),
        "MatMul": lambda _, x, y: x @ y,
        "Relu": lambda _, x: np.maximum(x, 0),
        "Clip": lambda _, x, low, high: np.clip(x, low, high),
        "Sigmoid": lambda _, x: np.float32(0.5) * np.tanh(np.float32(0.5) * x) + np.float32(0.5),
        "HardSigmoid": hard_sigmoid,
        "Softmax": softmax,
        "BatchNormalization": batch_normalization,
        "GlobalAveragePool": lambda _, x: x.mean((2, 3), keepdims=True),
        "AveragePool": pooled(np.mean),
        "MaxPool": pooled(np.max),
        "ReduceMean": lambda a, x: x.mean(tuple(a["axes"]), keepdims=bool(a.get("keepdims", 1))),
        "Resize": nearest,
        "ConvTranspose": transposed_convolution,
        "Concat": lambda a, *parts: np.concatenate(parts, axis=a["axis"]),
        "Slice": sliced,
        "Shape": lambda _, x: np.array(x.shape),
        "Cast": lambda a, x: x.astype(CASTS[a["to"]]),
        "Reshape": reshaped,
        "Transpose": lambda a, x: x.transpose(a["perm"]),
        "Squeeze": lambda a, x: x.squeeze(tuple(a["axes"])),
        "Identity": lambda _, x: x,
    }
)
