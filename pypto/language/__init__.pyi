# Written by `python -m docs.stubs`; corrections belong there.

from typing import Any, Final
from types import MappingProxyType

from pypto.ops.public import constexpr as constexpr

# Annotations of parameters that are arrays or tiles.
const = Any
dynamic = Any
static = Any
class tensor(Any): ...  # type: ignore[misc]

from pypto.language import activations as activations
from pypto.language import aggregates as aggregates
from pypto.language import bessel as bessel
from pypto.language import blocks as blocks
from pypto.language import creation as creation
from pypto.language import descriptors as descriptors
from pypto.language import directed as directed
from pypto.language import libdevice as libdevice
from pypto.language import mx as mx
from pypto.language import ops as ops
from pypto.language import ordering as ordering
from pypto.language import random as random
from pypto.language import reducing as reducing
from pypto.language import shaping as shaping
from pypto.language import standard as standard
from pypto.language import statistics as statistics
from pypto.language import types as types
from pypto.language.types import bfloat16 as bfloat16
from pypto.language.types import dtype as dtype
from pypto.language.types import float8_e4m3fn as float8_e4m3fn
from pypto.language.types import float8_e4m3fnuz as float8_e4m3fnuz
from pypto.language.types import float8_e5m2 as float8_e5m2
from pypto.language.types import float8_e5m2fnuz as float8_e5m2fnuz
from pypto.language.types import float8e4b8 as float8e4b8
from pypto.language.types import float8e4b15 as float8e4b15
from pypto.language.types import float8e4nv as float8e4nv
from pypto.language.types import float8e5 as float8e5
from pypto.language.types import float8e5b16 as float8e5b16
from pypto.language.types import float16 as float16
from pypto.language.types import float32 as float32
from pypto.language.types import float64 as float64
from pypto.language.types import int1 as int1
from pypto.language.types import int8 as int8
from pypto.language.types import int16 as int16
from pypto.language.types import int32 as int32
from pypto.language.types import int64 as int64
from pypto.language.types import pointer_type as pointer_type
from pypto.language.types import uint8 as uint8
from pypto.language.types import uint16 as uint16
from pypto.language.types import uint32 as uint32
from pypto.language.types import uint64 as uint64
from pypto.language.types import void as void
from pypto.language.libdevice import copysign as copysign
from pypto.language.libdevice import div_rn as div_rn
from pypto.language.libdevice import fdiv as fdiv
from pypto.language.libdevice import isfinite as isfinite
from pypto.language.libdevice import isinf as isinf
from pypto.language.libdevice import isnan as isnan
from pypto.language.libdevice import signbit as signbit
from pypto.language.libdevice import sqrt_rn as sqrt_rn
from pypto.language.aggregates import aggregate as aggregate
from pypto.language.aggregates import aggregate_replace as aggregate_replace
from pypto.language.aggregates import constexpr_function as constexpr_function
from pypto.language.blocks import advance as advance
from pypto.language.blocks import make_block_ptr as make_block_ptr
from pypto.language.descriptors import TensorDescriptor as TensorDescriptor
from pypto.language.descriptors import load_tensor_descriptor as load_tensor_descriptor
from pypto.language.descriptors import make_tensor_descriptor as make_tensor_descriptor
from pypto.language.descriptors import store_tensor_descriptor as store_tensor_descriptor
from pypto.language.mx import dot_scaled as dot_scaled
from pypto.language.ops import maximum as maximum
from pypto.language.ops import minimum as minimum
from pypto.language.ops import where as where
from pypto.language.ops import cast as cast
from pypto.language.ops import bitcast as bitcast
from pypto.language.ops import exp as exp
from pypto.language.ops import exp2 as exp2
from pypto.language.ops import expm1 as expm1
from pypto.language.ops import sigmoid as sigmoid
from pypto.language.ops import log as log
from pypto.language.ops import log2 as log2
from pypto.language.ops import log10 as log10
from pypto.language.ops import log1p as log1p
from pypto.language.ops import tanh as tanh
from pypto.language.ops import sinh as sinh
from pypto.language.ops import cosh as cosh
from pypto.language.ops import asinh as asinh
from pypto.language.ops import acosh as acosh
from pypto.language.ops import atanh as atanh
from pypto.language.ops import sqrt as sqrt
from pypto.language.ops import rsqrt as rsqrt
from pypto.language.ops import pow as pow
from pypto.language.ops import sin as sin
from pypto.language.ops import cos as cos
from pypto.language.ops import tan as tan
from pypto.language.ops import asin as asin
from pypto.language.ops import acos as acos
from pypto.language.ops import atan as atan
from pypto.language.ops import atan2 as atan2
from pypto.language.ops import erf as erf
from pypto.language.ops import erfc as erfc
from pypto.language.ops import floor as floor
from pypto.language.ops import ceil as ceil
from pypto.language.ops import trunc as trunc
from pypto.language.ops import rint as rint
from pypto.language.ops import round as round
from pypto.language.ops import abs as abs
from pypto.language.ops import fma as fma
from pypto.language.ops import umulhi as umulhi
from pypto.language.ops import program_id as program_id
from pypto.language.ops import num_programs as num_programs
from pypto.language.ops import arange as arange
from pypto.language.ops import broadcast_to as broadcast_to
from pypto.language.ops import reshape as reshape
from pypto.language.ops import permute as permute
from pypto.language.ops import sum as sum
from pypto.language.ops import prod as prod
from pypto.language.ops import max as max
from pypto.language.ops import min as min
from pypto.language.ops import xor_sum as xor_sum
from pypto.language.ops import reduce_or as reduce_or
from pypto.language.ops import argmax as argmax
from pypto.language.ops import argmin as argmin
from pypto.language.ops import cumsum as cumsum
from pypto.language.ops import cumprod as cumprod
from pypto.language.ops import cummax as cummax
from pypto.language.ops import cummin as cummin
from pypto.language.ops import dot as dot
from pypto.language.ops import histogram as histogram
from pypto.language.ops import gather as gather
from pypto.language.ops import load as load
from pypto.language.ops import store as store
from pypto.language.ops import atomic_add as atomic_add
from pypto.language.ops import atomic_max as atomic_max
from pypto.language.ops import atomic_min as atomic_min
from pypto.language.ops import atomic_and as atomic_and
from pypto.language.ops import atomic_or as atomic_or
from pypto.language.ops import atomic_xor as atomic_xor
from pypto.language.ops import atomic_xchg as atomic_xchg
from pypto.language.ops import atomic_cas as atomic_cas
from pypto.language.ops import range as range
from pypto.language.ops import static_range as static_range
from pypto.language.ops import full as full
from pypto.language.ops import static_print as static_print
from pypto.language.ops import device_print as device_print
from pypto.language.ops import multiple_of as multiple_of
from pypto.language.ops import max_contiguous as max_contiguous
from pypto.language.ops import max_constancy as max_constancy
from pypto.language.ops import assume as assume
from pypto.language.ops import label as label
from pypto.language.ops import debug_barrier as debug_barrier
from pypto.language.ops import inline_asm_elementwise as inline_asm_elementwise
from pypto.language.activations import gelu as gelu
from pypto.language.activations import relu as relu
from pypto.language.activations import silu as silu
from pypto.language.activations import softplus as softplus
from pypto.language.creation import full_like as full_like
from pypto.language.creation import ones as ones
from pypto.language.creation import ones_like as ones_like
from pypto.language.creation import zeros as zeros
from pypto.language.creation import zeros_like as zeros_like
from pypto.language.ordering import argsort as argsort
from pypto.language.ordering import bitonic_merge as bitonic_merge
from pypto.language.ordering import sort as sort
from pypto.language.ordering import topk as topk
from pypto.language.random import pair_uniform_to_normal as pair_uniform_to_normal
from pypto.language.random import philox as philox
from pypto.language.random import philox_impl as philox_impl
from pypto.language.random import rand as rand
from pypto.language.random import rand4x as rand4x
from pypto.language.random import randint as randint
from pypto.language.random import randint4x as randint4x
from pypto.language.random import randn as randn
from pypto.language.random import randn4x as randn4x
from pypto.language.random import uint_to_uniform_float as uint_to_uniform_float
from pypto.language.reducing import all as all
from pypto.language.reducing import any as any
from pypto.language.reducing import associative_scan as associative_scan
from pypto.language.reducing import map_elementwise as map_elementwise
from pypto.language.reducing import reduce as reduce
from pypto.language.reducing import softmax as softmax
from pypto.language.shaping import broadcast as broadcast
from pypto.language.shaping import cat as cat
from pypto.language.shaping import expand_dims as expand_dims
from pypto.language.shaping import flip as flip
from pypto.language.shaping import interleave as interleave
from pypto.language.shaping import join as join
from pypto.language.shaping import ravel as ravel
from pypto.language.shaping import split as split
from pypto.language.shaping import squeeze as squeeze
from pypto.language.shaping import trans as trans
from pypto.language.shaping import unsqueeze as unsqueeze
from pypto.language.shaping import view as view
from pypto.language.standard import cdiv as cdiv
from pypto.language.standard import clamp as clamp
from pypto.language.standard import device_assert as device_assert
from pypto.language.standard import logical_and as logical_and
from pypto.language.standard import logical_or as logical_or
from pypto.language.standard import next_power_of_2 as next_power_of_2
from pypto.language.standard import static_assert as static_assert
from pypto.language.standard import swizzle2d as swizzle2d
from pypto.language.statistics import logsumexp as logsumexp
from pypto.language.statistics import mean as mean
from pypto.language.statistics import std as std
from pypto.language.statistics import var as var

METHODS: Final[MappingProxyType[str, Any]]
WITH_GRADIENTS: Final[MappingProxyType[str, Any]]

__all__ = [
    "const",
    "constexpr",
    "dynamic",
    "static",
    "tensor",
    "bfloat16",
    "dtype",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8e4b8",
    "float8e4b15",
    "float8e4nv",
    "float8e5",
    "float8e5b16",
    "float16",
    "float32",
    "float64",
    "int1",
    "int8",
    "int16",
    "int32",
    "int64",
    "pointer_type",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "void",
    "copysign",
    "div_rn",
    "fdiv",
    "isfinite",
    "isinf",
    "isnan",
    "signbit",
    "sqrt_rn",
    "aggregate",
    "aggregate_replace",
    "constexpr_function",
    "advance",
    "make_block_ptr",
    "TensorDescriptor",
    "load_tensor_descriptor",
    "make_tensor_descriptor",
    "store_tensor_descriptor",
    "dot_scaled",
    "maximum",
    "minimum",
    "where",
    "cast",
    "bitcast",
    "exp",
    "exp2",
    "expm1",
    "sigmoid",
    "log",
    "log2",
    "log10",
    "log1p",
    "tanh",
    "sinh",
    "cosh",
    "asinh",
    "acosh",
    "atanh",
    "sqrt",
    "rsqrt",
    "pow",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "atan2",
    "erf",
    "erfc",
    "floor",
    "ceil",
    "trunc",
    "rint",
    "round",
    "abs",
    "fma",
    "umulhi",
    "program_id",
    "num_programs",
    "arange",
    "broadcast_to",
    "reshape",
    "permute",
    "sum",
    "prod",
    "max",
    "min",
    "xor_sum",
    "reduce_or",
    "argmax",
    "argmin",
    "cumsum",
    "cumprod",
    "cummax",
    "cummin",
    "dot",
    "histogram",
    "gather",
    "load",
    "store",
    "atomic_add",
    "atomic_max",
    "atomic_min",
    "atomic_and",
    "atomic_or",
    "atomic_xor",
    "atomic_xchg",
    "atomic_cas",
    "range",
    "static_range",
    "full",
    "static_print",
    "device_print",
    "multiple_of",
    "max_contiguous",
    "max_constancy",
    "assume",
    "label",
    "debug_barrier",
    "inline_asm_elementwise",
    "gelu",
    "relu",
    "silu",
    "softplus",
    "full_like",
    "ones",
    "ones_like",
    "zeros",
    "zeros_like",
    "argsort",
    "bitonic_merge",
    "sort",
    "topk",
    "pair_uniform_to_normal",
    "philox",
    "philox_impl",
    "rand",
    "rand4x",
    "randint",
    "randint4x",
    "randn",
    "randn4x",
    "uint_to_uniform_float",
    "all",
    "any",
    "associative_scan",
    "map_elementwise",
    "reduce",
    "softmax",
    "broadcast",
    "cat",
    "expand_dims",
    "flip",
    "interleave",
    "join",
    "ravel",
    "split",
    "squeeze",
    "trans",
    "unsqueeze",
    "view",
    "cdiv",
    "clamp",
    "device_assert",
    "logical_and",
    "logical_or",
    "next_power_of_2",
    "static_assert",
    "swizzle2d",
    "logsumexp",
    "mean",
    "std",
    "var",
]
