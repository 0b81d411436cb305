"""Exchange of arrays with other libraries: the array API standard's protocol, pickles, and memory of lazy arrays."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from pypto.graph.exchange.tensors import Torch
from pypto.graph.ir.node import Node, definition, line_of, source_of
from pypto.markup import Markup, note, tag


class Exchanged:
    """The part of a tensor that other libraries ask for.

    Attributes
    ----------
    graph : TensorGraph
    node : Node
    """

    graph: Any
    node: Any

    def needs_value(self, what: str, way: str) -> Any:
        """Return the value of a lazy array, or refuse the request."""
        raise NotImplementedError

    def __array_namespace__(self, *, api_version: Any = None) -> Any:
        """The namespace of the standard: numpy, whose functions are traced; of lazy arrays, one that makes such."""
        return self.graph.namespace(api_version)

    @property
    def device(self) -> Any:
        """The device of the library's arrays."""
        device: Any = sys.modules["torch"].device("cpu") if self.graph.library == "torch" else np.empty(0).device
        return device

    def to_device(self, device: Any, /, *, stream: Any = None) -> Any:
        if device != self.device or stream is not None:
            raise ValueError(f"arrays of numpy are on the device {self.device!r} alone, not on {device!r}")
        return self

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> Any:
        array = np.array(self.needs_value("`__dlpack__`", "exchange the result of the call"))
        if self.graph.library == "torch":  # numpy exchanges no bfloat16
            return Torch().leave(array).__dlpack__()
        return array.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __reduce__(self) -> Any:
        """A lazy array is pickled as its value."""
        value = np.array(self.needs_value("a pickle", "pickle the result of the call"))
        return self.graph.restored, (value,)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__reduce__()

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """The memory of a lazy array, for kernels that read it."""
        if not self.graph.is_lazy:
            raise AttributeError("__array_interface__")
        interface: dict[str, Any] = self.graph.computed(self.node).__array_interface__
        return interface


def source_parts(node: Node) -> list[Markup]:
    """Return a node and its user's line, for a notebook's cell."""
    from pypto.markup.colours import coloured

    parts = [tag("code", coloured(definition(node)))]
    if node.place is not None:
        parts += [note(line_of(node)), tag("pre", coloured(source_of(node)))]
    return parts
