"""Quantisation converts a model's weights to int8, int4 or small floats, so that they take less memory and time.

`Config` says which layers are quantised, to how many bits, and by which algorithm. `calibrate` runs the model block by
block on example data, and `quantize` quantises one weight. `deploy` puts the result onto kernels, and `save` writes it
to files. ``@quant.algorithm`` adds an algorithm.

Read `schemes`, `rounding`, `tensor` and `layer` for what a quantised number is, then `config`, `solvers` and
`calibrate` for how it is found, `deploy` for how it is computed with, `formats` for files, and `models`, `convolution`
and `torch_modules` for whole models. `metrics`, `report` and `plot` measure the loss; `floats`, `arrays`, `checks` and
`warning` serve the others.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from pypto.quant.calibrate.begin import calibrate
from pypto.quant.calibrate.blocks import Block, Calibration
from pypto.quant.calibrate.observers import Statistics
from pypto.quant.calibrate.quantize import quantize_weight as quantize
from pypto.quant.config import Config
from pypto.quant.convolution import Convolution, QuantizedConvolution, calibrate_convolutions
from pypto.quant.deploy import DeployedLayer, deploy
from pypto.quant.formats.cache import Int8Cache, KeyRanges
from pypto.quant.formats.compressed_tensors import load, save
from pypto.quant.formats.gguf import GGUF, read_gguf
from pypto.quant.layer import Layer, QuantizedLayer
from pypto.quant.metrics import cosine, rank_correlation, relative_error, sqnr
from pypto.quant.models.bert import Bert
from pypto.quant.models.bert_encoder import Encoder
from pypto.quant.models.bert_folder import load_bert
from pypto.quant.models.decoding.cache import KeyValueCache
from pypto.quant.models.decoding.decoder import Decoder
from pypto.quant.models.llama import Llama, load_llama
from pypto.quant.report import report
from pypto.quant.rounding import grid, ranges
from pypto.quant.rounding import quantize as codes
from pypto.quant.schemes import Scheme, fp8, int4, int8, mxfp4, mxfp8
from pypto.quant.solvers.algorithm import Algorithm, algorithm, algorithms
from pypto.quant.tensor import GroupedWeight, QuantizedTensor, QuantizedWeight

__all__ = [
    "GGUF", "Algorithm", "Bert", "Block", "Calibration", "Config", "Convolution", "Decoder", "DeployedLayer", "Encoder",
    "GroupedWeight", "Int8Cache", "KeyRanges", "KeyValueCache", "Layer", "Llama", "QuantizedConvolution",
    "QuantizedLayer", "QuantizedTensor", "QuantizedWeight", "Scheme", "Statistics", "algorithm", "algorithms",
    "calibrate", "calibrate_convolutions", "codes", "cosine", "deploy", "fp8", "grid", "int4", "int8", "load",
    "load_bert", "load_llama", "mxfp4", "mxfp8", "quantize", "ranges", "rank_correlation", "read_gguf",
    "relative_error", "report", "save", "sqnr",
]  # fmt: skip

WITH_TORCH: Final = {"fake_quantize": "linear", "prepare": "linear", "deploy_module": "deployed"}  # loaded on first use


def __getattr__(name: str) -> Any:
    """Returns an algorithm of the registry by its name, or a function that needs torch."""
    if name in WITH_TORCH:
        return getattr(import_module(f"pypto.quant.torch_modules.{WITH_TORCH[name]}"), name)
    if name.startswith("_") or name not in algorithms:
        raise AttributeError(f"module 'pypto.quant' has no attribute {name!r}")
    return algorithms[name]


def __dir__() -> list[str]:
    return sorted([*__all__, *WITH_TORCH, *algorithms])
