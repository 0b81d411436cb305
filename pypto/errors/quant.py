"""What can be wrong with a scheme, the data of a calibration, or a file of a quantised model."""

from __future__ import annotations

from pypto.errors.base import Diagnostic, PyptoWarning
from pypto.errors.examples import Example, programs


def calls(wrong: str, right: str) -> Example:
    """Programs that quantise one layer."""
    head = "from pypto import quant\n\nw = np.ones((2, 8), np.float32)\n"
    return programs(head + wrong, head + right)


def encoders(wrong: str, right: str) -> Example:
    """Programs that make a small sentence encoder of tensors."""
    head = """from pypto import quant

w = np.ones((2, 8), np.float32)
tables = ("word_embeddings", "position_embeddings", "token_type_embeddings")
tensors = {f"embeddings.{name}.weight": w for name in tables}
tensors |= {f"embeddings.LayerNorm.{part}": w[0] for part in ("weight", "bias")}
"""
    return programs(head + wrong, head + right)


def modules(wrong: str, right: str) -> Example:
    """Programs that calibrate a torch module with a convolution in it."""
    head = """import torch
from pypto import quant

model = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 2), torch.nn.Flatten(), torch.nn.Linear(4, 2))
config = """
    end = """
with quant.calibrate(model, config) as run:
    run(torch.ones(1, 1, 2, 2))
"""
    return programs(head + wrong + end, head + right + end)


def skipping(pattern: str) -> str:
    """Lines that calibrate a model without one layer."""
    return f"""
def forward(values, linear):
    return {{"x": linear("lm_head", values["x"])}}

block = quant.Block("0", [quant.Layer("lm_head", w)], forward)
with quant.calibrate([block], quant.Config(skip=["{pattern}"])) as run:
    run({{"x": w}})
"""


class NotRead(Diagnostic, ValueError):
    code = "E378"
    template = "{source} has {what}, which is not read"
    hint = "{way}"
    example = encoders('quant.Bert.of(tensors | {"embeddings.scale": w}, heads=1)', "quant.Bert.of(tensors, heads=1)")


class NoSuchLayer(Diagnostic, LookupError):
    code = "E379"
    template = "{what}{suggestion}"
    hint = "layers are {known}"
    example = calls(skipping("lm_haed"), skipping("lm_head"))


class WrongScheme(Diagnostic, ValueError):
    code = "E381"
    template = "{what}"
    hint = "{way}"
    example = calls("quant.int4(group=0)", "quant.int4(group=128)")


class NotFinite(Diagnostic, ValueError):
    code = "E382"
    template = "layer {layer}: {what} has NaN or infinity{place}"
    hint = "look for the operation before this layer that gives it; quantisation would hide it"
    example = calls("quant.quantize(w * np.nan)", "quant.quantize(w)")


class NoSuchAlgorithm(Diagnostic, LookupError):
    code = "E383"
    template = "there is no quantisation algorithm {name}{suggestion}"
    hint = "there are {known}, and `@quant.algorithm` adds one"
    example = calls('quant.Config(algorithm="qptq")', 'quant.Config(algorithm="gptq")')


class WrongOption(Diagnostic, TypeError):
    code = "E384"
    template = "algorithm {name} has no option {option}{suggestion}"
    hint = "its options are {known}"
    example = calls("quant.gptq(dump=0.1)", "quant.gptq(damp=0.1)")


class WrongResult(Diagnostic, ValueError):
    code = "E385"
    template = "layer {layer}: {what}"
    hint = "an algorithm returns codes within the scheme's range, and scales that are positive and finite"
    example = calls(
        """
        @quant.algorithm("zeros", data=False)
        def zeros(layer, statistics, scheme):
            n, k = layer.weight.shape
            return quant.QuantizedWeight(np.zeros((n, k), np.int8), np.zeros((n, 1), np.float32), scheme)

        quant.quantize(w, algorithm=zeros)
        """.replace("\n        ", "\n"),
        """
        @quant.algorithm("zeros", data=False)
        def zeros(layer, statistics, scheme):
            n, k = layer.weight.shape
            return quant.QuantizedWeight(np.zeros((n, k), np.int8), np.ones((n, 1), np.float32), scheme)

        quant.quantize(w, algorithm=zeros)
        """.replace("\n        ", "\n"),
    )


class WrongCalibration(Diagnostic, ValueError):
    code = "E386"
    template = "{what}"
    hint = "{way}"
    example = calls(
        "quant.quantize(w, algorithm=quant.awq())", "quant.quantize(w, np.ones((32, 8)), algorithm=quant.awq())"
    )


class WrongSequence(Diagnostic, ValueError):
    code = "E387"
    template = "{what}"
    hint = "all algorithms but the last give factors of the inputs, as smoothquant and awq do"
    example = calls('quant.Config(algorithm=("gptq", "awq"))', 'quant.Config(algorithm=("smoothquant", "gptq"))')


class FullCache(Diagnostic, ValueError):
    code = "E388"
    template = "the cache has room for {tokens} tokens and holds {held}: {more} more do not fit"
    hint = "make a larger one with `decoder.cache(tokens)`, or set its `length` back"
    example = calls(
        "quant.KeyValueCache.of((1, 1, 4, 8)).reserve(5)", "quant.KeyValueCache.of((1, 1, 5, 8)).reserve(5)"
    )


class StaysFloat(Diagnostic, PyptoWarning):
    code = "E389"
    template = "{count} weights stay in floats, {share} of the numbers: {names}"
    hint = "torch.nn.Linear and Conv1D of transformers are quantised; `skip` names others, and `run.floats` lists all"
    example = modules("quant.Config()", 'quant.Config(skip=["0"])')

    @property
    def weights(self) -> tuple[str, ...]:
        """The names of all weights that it counts."""
        return tuple(self.fields["weights"].split("\n"))


class FewSamples(Diagnostic, PyptoWarning):
    code = "E706"
    template = "layer {layer}{more}: {rows} rows of inputs for {columns} columns are few; statistics are uncertain"
    hint = "calibrate with at least four rows for each column, {needed} here"
    example = calls(
        "quant.quantize(w, np.eye(8), algorithm=quant.gptq())",
        "quant.quantize(w, np.tile(np.eye(8), (4, 1)), algorithm=quant.gptq())",
    )


class RoundedToNearest(Diagnostic, PyptoWarning):
    code = "E707"
    template = "layer {layer}: the matrix of its inputs cannot be factored, even with damping {damp:g}"
    hint = "the layer was rounded to nearest; calibrate with more data, or pass a larger `damp`"
    example = calls(
        "quant.quantize(w, np.full((32, 8), 3.0), algorithm=quant.gptq(damp=0))",
        "quant.quantize(w, np.full((32, 8), 3.0), algorithm=quant.gptq(damp=0.01))",
    )
