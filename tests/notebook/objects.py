"""The objects that a user meets in a notebook, each by the code of a cell that ends with it."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

# What is shown must be escaped wherever it comes from: the docstring, a label and names of functions are HTML here.
HEAD: Final = '''
import numpy as np
import pypto as pto
import pypto.arrays
from pypto import library as lib
from pypto import quant
from pypto.debug.explain import explain
from pypto.testing import compare as timed

x = np.ones((64, 256), np.float32)
y = np.empty_like(x)

@pto.jit
def softmax(x, y, scale: float = 1.0):
    """Softmax of <script>alert("rows")</script>."""
    row = pto.program_id(0)
    with pto.label("<i>label</i>"):
        t = x[row, :] * scale
        e = pto.exp(t - pto.max(t))
        y[row, :] = e / pto.sum(e)

@pto.autotune([pto.Config({"BLOCK": 64}), pto.Config({"BLOCK": 128})], key=["x"], cache_results=False)
@pto.jit
def twice(x, out, BLOCK: pto.constexpr):
    """Twice as much."""
    i = pto.program_id(0) * BLOCK
    out[i : i + BLOCK] = 2 * x[i : i + BLOCK]

back = pto.adjoint(softmax, wrt=["x"])
back[64](x, y, d_y=y.copy(), d_x=np.empty_like(x))
weights = quant.quantize(np.ones((64, 256), np.float32))

@pto.fuse
def layer(x, weight):
    """A layer, not <b>bold</b>."""
    y = np.exp(x) @ weight
    return y / y.sum(axis=1, keepdims=True)

@pto.fuse
def untouched(x):
    return x + 1

weight = np.ones((256, 64), np.float32)

with pto.profile() as prof:
    softmax[64](x, y)
softmax[64](x, y)
layer(x, weight)
twice[lambda meta: pto.cdiv(1024, meta["BLOCK"])](x.ravel()[:1024], y.ravel()[:1024])
'''
# Name -> the expression, and words that its HTML has.
OBJECTS: Final = MappingProxyType({
    "kernel": ("softmax", ("softmax(x, y, scale: ", "Softmax of", "compiled version", "first call with these types")),
    "new kernel": ("pto.jit(softmax.function)", ("Not compiled yet",)),
    "specializations": ("softmax.specializations", ("compiled version", "array&lt;f32, 2&gt;", " ms")),
    "version": ("softmax.compile(x, y)", ("a compiled version", "shape(x, 1) = 256")),
    "explain": ("explain(softmax, x, y)", ("why it was compiled so", "scratch memory")),
    "verify": ("pto.verify(softmax)[64](x, y)", ("softmax: verified", "16,384", "in ulp")),
    "verifier": ("pto.verify(softmax)", ("verify(softmax)[grid]",)),
    "simulate": ("pto.simulate(softmax)[64](x, y)", ("softmax on ascend910b2", "cycles", "MTE2")),
    "simulator": ("pto.simulate(softmax)", ("simulate(softmax)[grid]",)),
    "compare": ("timed({'<b>one</b>': lambda: softmax[64](x, y), 'two': lambda: None}, rep=1)", ("comparison", "two")),
    "profile": ("prof", ("kernel, label, line", "softmax")),
    "inspect": ("softmax.inspect(x, y, profile=prof)", ("line by line", "elements per pass", "float32 in", "%")),
    "inspect for a chip": ("softmax.inspect(x, y, target='ascend910b2')", ("memory plan", "timeline", "cycles")),
    "autotuner": ("twice", ("Twice as much.", "2 configurations", "BLOCK=64")),
    "fused function": ("layer", ("layer(x, weight)", "not &lt;b&gt;bold", "x: f32[64, 256]")),
    "new fused function": ("untouched", ("Not traced yet",)),
    "plan": ("layer.plan(x, weight)", ("the function", "Tensor graph", "arena", "pto.dot")),
    "picture of a plan": ("layer.plan(x, weight).drawing('tensor')", ("Tensor graph", "exp", "dot")),
    "arena of a plan": ("layer.plan(x, weight).drawing('arena')", ("arena over time",)),
    "lazy array": ("pto.arrays.lazy(x) @ weight", ("f32[64, 64]", "how it is computed", "256.", "dot")),
    "times of a plan": ("layer.profile(x, weight)", ("the fastest of 5 runs", "µs")),
    "verified function": ("pto.verify(layer, x, weight)", ("layer: verified", "in ulp")),
    "function verifier": ("pto.verify(layer)", ("call it as verify(layer)",)),
    "adjoint": ("back", ("adjoint of softmax by x", "softmax(x, y, scale: ", "d_x", "1 derived kernel", "def ")),
    "new adjoint": ("pto.adjoint(softmax, wrt=['x'])", ("Nothing is derived yet",)),
    "operator": ("lib.rms_norm", ("lib.rms_norm", "x[t..., d]", "Root mean square", "tolerance", "Zhang and Sennrich")),
    "operators": ("lib.rows", ("operators", "rms_norm", "Root mean square")),
    "quantised weight": ("weights", ("QuantizedTensor", "int8[64, 256]", "64 outputs of 256 inputs, int8 symmetric")),
    "quantised layer": ("quant.QuantizedLayer('<b>', weights)", ("QuantizedLayer", "&lt;b&gt;", "64 outputs of")),
    "deployed layer": ("quant.deploy({'up': quant.QuantizedLayer('up', weights)})['up']", ("DeployedLayer", "W8A16")),
    "tuning report": ("twice.tuning_report()", ("tuning of twice", "chosen")),
})  # fmt: skip
