"""The sentence encoder as a graph for ONNX Runtime, of the fused operations that its own optimizer would make of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from benchmarks.peers import imported
from benchmarks.runner import Impl, Missing

FUSED: Final = "com.microsoft"
HEADS: Final = 12
EPS: Final = 1e-12


def onnx_encoder(weights: Any, batch: Any, threads: int) -> Impl | Missing:
    """Embedding a batch by ONNX Runtime on some threads."""
    runtime = imported("onnxruntime")
    if isinstance(runtime, Missing):
        return runtime
    onnx = imported("onnx")
    if isinstance(onnx, Missing):
        return onnx
    options = session_options(runtime, threads)
    session = runtime.InferenceSession(encoder_graph(onnx, weights), options, providers=["CPUExecutionProvider"])
    given = {"ids": batch.ids, "mask": batch.mask}
    return lambda: session.run(None, given)[0]


def session_options(runtime: Any, threads: int) -> Any:
    """Options of a session that takes turns with others."""
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.add_session_config_entry("session.force_spinning_stop", "1")  # else its threads disturb the next one's turn
    options.log_severity_level = 3
    return options


def encoder_graph(onnx: Any, weights: Any) -> bytes:
    """The model as bytes: ids and mask of shape (batch, length) to vectors (batch, width)."""
    graph = Graph(onnx)
    words = graph.node("Gather", [graph.constant(weights.words), "ids"])
    length = graph.node("Shape", ["ids"], start=1, end=2)
    bounds = [graph.constant(np.zeros(1, np.int64)), length, graph.constant(np.zeros(1, np.int64))]
    places = graph.node("Slice", [graph.constant(weights.positions + weights.segment), *bounds])
    x = graph.node("LayerNormalization", [graph.node("Add", [words, places]), *graph.norm(weights.norm)], epsilon=EPS)
    for layer in weights.layers:
        x = one_layer(graph, x, layer)
    return graph.model(pooled(graph, x))


def one_layer(graph: Graph, x: str, layer: Any) -> str:
    """Attention and feed-forward, each with its residual and norm."""
    qkv = [graph.constant(layer.qkv.weight), graph.constant(layer.qkv.bias)]
    attended = graph.fused("Attention", [x, *qkv, "mask"], num_heads=HEADS)
    x = residual_norm(graph, graph.product(attended, layer.output), x, layer.attention_norm, layer.output)
    hidden = graph.fused("BiasGelu", [graph.product(x, layer.up), graph.constant(layer.up.bias)])
    return residual_norm(graph, graph.product(hidden, layer.down), x, layer.norm, layer.down)


def residual_norm(graph: Graph, made: str, x: str, norm: Any, linear: Any) -> str:
    """The norm of x + made + the bias of `linear`."""
    given = [made, x, *graph.norm(norm), graph.constant(linear.bias)]
    return graph.fused("SkipLayerNormalization", given, epsilon=EPS)


def pooled(graph: Graph, x: str) -> str:
    """Means over the tokens, as unit vectors."""
    kept = graph.node("Cast", ["mask"], to=graph.onnx.TensorProto.FLOAT)
    kept = graph.node("Unsqueeze", [kept, graph.constant(np.array([2]))])
    tokens = graph.constant(np.array([1]))
    total = graph.node("ReduceSum", [graph.node("Mul", [x, kept]), tokens], keepdims=0)
    mean = graph.node("Div", [total, graph.node("ReduceSum", [kept, tokens], keepdims=0)])
    return graph.node("LpNormalization", [mean], axis=1, p=2)


class Graph:
    """Nodes and constants in the order in which they are made, under names that count up."""

    def __init__(self, onnx: Any) -> None:
        self.onnx, self.nodes, self.constants = onnx, list[Any](), list[Any]()

    def constant(self, array: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def node(self, kind: str, inputs: Sequence[str], **attributes: Any) -> str:
        name = f"n{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def fused(self, kind: str, inputs: Sequence[str], **attributes: Any) -> str:
        return self.node(kind, inputs, domain=FUSED, **attributes)

    def norm(self, norm: Any) -> list[str]:
        return [self.constant(norm.weight), self.constant(norm.bias)]

    def product(self, x: str, linear: Any) -> str:
        return self.node("MatMul", [x, self.constant(linear.weight)])

    def model(self, result: str) -> bytes:
        helper, types = self.onnx.helper, self.onnx.TensorProto
        tensor: Callable[..., Any] = helper.make_tensor_value_info
        given = [tensor(name, types.INT32, ["batch", "length"]) for name in ("ids", "mask")]
        made = [tensor(result, types.FLOAT, ["batch", None])]
        graph = helper.make_graph(self.nodes, "encoder", given, made, self.constants)
        versions = [helper.make_opsetid("", 17), helper.make_opsetid(FUSED, 1)]
        model = helper.make_model(graph, opset_imports=versions, ir_version=8)
        found: bytes = model.SerializeToString()
        return found
