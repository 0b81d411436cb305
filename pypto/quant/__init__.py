"""Quantisation: from a trained model to int8 and int4 weights and int8 activations.

`Config` says what is quantised, and by which algorithm; `calibrate` runs a model block by block, and `quantize` does
one weight. ``@quant.algorithm`` adds an algorithm.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from pypto.quant.algorithm import Algorithm, algorithm, algorithms
from pypto.quant.begin import calibrate
from pypto.quant.bert import Bert
from pypto.quant.blocks import Block, Calibration
from pypto.quant.cache import Int8Cache, KeyRanges
from pypto.quant.config import Config
from pypto.quant.convolution import Convolution, QuantizedConvolution, calibrate_convolutions
from pypto.quant.decoding.cache import KeyValueCache
from pypto.quant.decoding.decoder import Decoder
from pypto.quant.deploy import DeployedLayer, deploy
from pypto.quant.encoder import Encoder
from pypto.quant.formats import load, save
from pypto.quant.gguf import GGUF, GroupedWeight, read_gguf
from pypto.quant.layer import QuantizedLayer
from pypto.quant.layer import quantize_weight as quantize
from pypto.quant.llama import Llama, load_llama
from pypto.quant.metrics import cosine, rank_correlation, relative_error, sqnr
from pypto.quant.observers import Statistics
from pypto.quant.pretrained import load_bert
from pypto.quant.report import report
from pypto.quant.schemes import Scheme, fp8, int4, int8, mxfp4, mxfp8
from pypto.quant.weight import Layer, QuantizedWeight, grid, ranges
from pypto.quant.weight import quantize as codes

__all__ = [
    "GGUF", "Algorithm", "Bert", "Block", "Calibration", "Config", "Convolution", "Decoder", "DeployedLayer", "Encoder",
    "GroupedWeight", "Int8Cache", "KeyRanges", "KeyValueCache", "Layer", "Llama", "QuantizedConvolution",
    "QuantizedLayer", "QuantizedWeight", "Scheme", "Statistics", "algorithm", "algorithms", "calibrate",
    "calibrate_convolutions", "codes", "cosine", "deploy", "fp8", "grid", "int4", "int8", "load", "load_bert",
    "load_llama", "mxfp4", "mxfp8", "quantize", "ranges", "rank_correlation", "read_gguf", "relative_error", "report",
    "save", "sqnr",
]  # fmt: skip

WITH_TORCH: Final = {"fake_quantize": "linear", "prepare": "linear", "deploy_module": "deployed_linear"}  # loaded late


def __getattr__(name: str) -> Any:
    """An algorithm of the registry by its name; what needs torch."""
    if name in WITH_TORCH:
        return getattr(import_module(f"pypto.quant.{WITH_TORCH[name]}"), name)
    if name.startswith("_") or name not in algorithms:
        raise AttributeError(f"module 'pypto.quant' has no attribute {name!r}")
    return algorithms[name]


def __dir__() -> list[str]:
    return sorted([*__all__, *WITH_TORCH, *algorithms])
