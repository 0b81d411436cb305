# Written by `python -m docs.stubs`; corrections belong there.

from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from pypto.library.registry import Registry as Registry
from pypto.library.row import Implementation as Implementation, Operator as Operator
from pypto.library.signature import Signature as Signature
from pypto.library.tolerance import EXACT as EXACT, Close as Close, Tolerance as Tolerance

_D = TypeVar("_D", bound=np.generic)
_T = TypeVar("_T")

rows: Registry

def register(row: Operator, *, replace: bool = False) -> Operator: ...

class _RmsNorm(Operator):
    @overload  # type: ignore[override]
    def __call__(self, x: np.ndarray[Any, np.dtype[_D]], g: Any, eps: float = ..., *, version: str = ...) -> np.ndarray[Any, np.dtype[_D]]: ...
    @overload
    def __call__(self, x: _T, g: Any, eps: float = ..., *, version: str = ...) -> _T: ...

rms_norm: _RmsNorm

class _RmsNormBackward(Operator):
    @overload  # type: ignore[override]
    def __call__(self, x: np.ndarray[Any, np.dtype[_D]], g: Any, dy: Any, eps: float = ..., *, version: str = ...) -> tuple[np.ndarray[Any, np.dtype[_D]], NDArray[np.float32]]: ...
    @overload
    def __call__(self, x: _T, g: Any, dy: Any, eps: float = ..., *, version: str = ...) -> tuple[_T, _T]: ...

rms_norm_backward: _RmsNormBackward

class _AddRmsNorm(Operator):
    @overload  # type: ignore[override]
    def __call__(self, x: np.ndarray[Any, np.dtype[_D]], residual: Any, g: Any, eps: float = ..., *, version: str = ...) -> tuple[np.ndarray[Any, np.dtype[_D]], np.ndarray[Any, np.dtype[_D]]]: ...
    @overload
    def __call__(self, x: _T, residual: Any, g: Any, eps: float = ..., *, version: str = ...) -> tuple[_T, _T]: ...

add_rms_norm: _AddRmsNorm

class _LayerNorm(Operator):
    @overload  # type: ignore[override]
    def __call__(self, x: np.ndarray[Any, np.dtype[_D]], g: Any, b: Any, eps: float = ..., *, version: str = ...) -> np.ndarray[Any, np.dtype[_D]]: ...
    @overload
    def __call__(self, x: _T, g: Any, b: Any, eps: float = ..., *, version: str = ...) -> _T: ...

layer_norm: _LayerNorm

class _AddLayerNorm(Operator):
    @overload  # type: ignore[override]
    def __call__(self, x: np.ndarray[Any, np.dtype[_D]], residual: Any, g: Any, b: Any, eps: float = ..., *, version: str = ...) -> tuple[np.ndarray[Any, np.dtype[_D]], np.ndarray[Any, np.dtype[_D]]]: ...
    @overload
    def __call__(self, x: _T, residual: Any, g: Any, b: Any, eps: float = ..., *, version: str = ...) -> tuple[_T, _T]: ...

add_layer_norm: _AddLayerNorm

class _Gelu(Operator):
    @overload  # type: ignore[override]
    def __call__(self, x: np.ndarray[Any, np.dtype[_D]], *, version: str = ...) -> np.ndarray[Any, np.dtype[_D]]: ...
    @overload
    def __call__(self, x: _T, *, version: str = ...) -> _T: ...

gelu: _Gelu

class _GeluTanh(Operator):
    @overload  # type: ignore[override]
    def __call__(self, x: np.ndarray[Any, np.dtype[_D]], *, version: str = ...) -> np.ndarray[Any, np.dtype[_D]]: ...
    @overload
    def __call__(self, x: _T, *, version: str = ...) -> _T: ...

gelu_tanh: _GeluTanh

class _Silu(Operator):
    @overload  # type: ignore[override]
    def __call__(self, x: np.ndarray[Any, np.dtype[_D]], *, version: str = ...) -> np.ndarray[Any, np.dtype[_D]]: ...
    @overload
    def __call__(self, x: _T, *, version: str = ...) -> _T: ...

silu: _Silu

class _Swiglu(Operator):
    @overload  # type: ignore[override]
    def __call__(self, x: np.ndarray[Any, np.dtype[_D]], *, version: str = ...) -> np.ndarray[Any, np.dtype[_D]]: ...
    @overload
    def __call__(self, x: _T, *, version: str = ...) -> _T: ...

swiglu: _Swiglu

class _Softmax(Operator):
    @overload  # type: ignore[override]
    def __call__(self, x: np.ndarray[Any, np.dtype[_D]], *, version: str = ...) -> np.ndarray[Any, np.dtype[_D]]: ...
    @overload
    def __call__(self, x: _T, *, version: str = ...) -> _T: ...

softmax: _Softmax

class _RopeHalf(Operator):
    @overload  # type: ignore[override]
    def __call__(self, x: np.ndarray[Any, np.dtype[_D]], cos: Any, sin: Any, *, version: str = ...) -> np.ndarray[Any, np.dtype[_D]]: ...
    @overload
    def __call__(self, x: _T, cos: Any, sin: Any, *, version: str = ...) -> _T: ...

rope_half: _RopeHalf

class _RopePartial(Operator):
    @overload  # type: ignore[override]
    def __call__(self, x: np.ndarray[Any, np.dtype[_D]], cos: Any, sin: Any, *, version: str = ...) -> np.ndarray[Any, np.dtype[_D]]: ...
    @overload
    def __call__(self, x: _T, cos: Any, sin: Any, *, version: str = ...) -> _T: ...

rope_partial: _RopePartial

class _RopeInterleaved(Operator):
    @overload  # type: ignore[override]
    def __call__(self, x: np.ndarray[Any, np.dtype[_D]], cos: Any, sin: Any, *, version: str = ...) -> np.ndarray[Any, np.dtype[_D]]: ...
    @overload
    def __call__(self, x: _T, cos: Any, sin: Any, *, version: str = ...) -> _T: ...

rope_interleaved: _RopeInterleaved

class _RopeInterleavedInverse(Operator):
    @overload  # type: ignore[override]
    def __call__(self, x: np.ndarray[Any, np.dtype[_D]], cos: Any, sin: Any, *, version: str = ...) -> np.ndarray[Any, np.dtype[_D]]: ...
    @overload
    def __call__(self, x: _T, cos: Any, sin: Any, *, version: str = ...) -> _T: ...

rope_interleaved_inverse: _RopeInterleavedInverse

class _RopeInterleavedToHalf(Operator):
    @overload  # type: ignore[override]
    def __call__(self, x: np.ndarray[Any, np.dtype[_D]], cos: Any, sin: Any, *, version: str = ...) -> np.ndarray[Any, np.dtype[_D]]: ...
    @overload
    def __call__(self, x: _T, cos: Any, sin: Any, *, version: str = ...) -> _T: ...

rope_interleaved_to_half: _RopeInterleavedToHalf

class _QuantizePerToken(Operator):
    @overload  # type: ignore[override]
    def __call__(self, x: np.ndarray[Any, np.dtype[_D]], smooth: Any = ..., *, version: str = ...) -> tuple[NDArray[np.int8], NDArray[np.float32]]: ...
    @overload
    def __call__(self, x: _T, smooth: Any = ..., *, version: str = ...) -> tuple[_T, _T]: ...

quantize_per_token: _QuantizePerToken

class _QuantizePerGroup(Operator):
    @overload  # type: ignore[override]
    def __call__(self, x: np.ndarray[Any, np.dtype[_D]], smooth: Any = ..., groups: int = ..., *, version: str = ...) -> tuple[NDArray[np.int8], NDArray[np.float32]]: ...
    @overload
    def __call__(self, x: _T, smooth: Any = ..., groups: int = ..., *, version: str = ...) -> tuple[_T, _T]: ...

quantize_per_group: _QuantizePerGroup

class _QuantizePerChannel(Operator):
    @overload  # type: ignore[override]
    def __call__(self, w: np.ndarray[Any, np.dtype[_D]], *, version: str = ...) -> tuple[NDArray[np.int8], NDArray[np.float32]]: ...
    @overload
    def __call__(self, w: _T, *, version: str = ...) -> tuple[_T, _T]: ...

quantize_per_channel: _QuantizePerChannel

class _QuantizeStatic(Operator):
    @overload  # type: ignore[override]
    def __call__(self, x: np.ndarray[Any, np.dtype[_D]], scale: Any, offset: Any, *, version: str = ...) -> NDArray[np.int8]: ...
    @overload
    def __call__(self, x: _T, scale: Any, offset: Any, *, version: str = ...) -> _T: ...

quantize_static: _QuantizeStatic

class _Dequantize(Operator):
    @overload  # type: ignore[override]
    def __call__(self, q: np.ndarray[Any, np.dtype[_D]], scale: Any, *, version: str = ...) -> NDArray[np.float32]: ...
    @overload
    def __call__(self, q: _T, scale: Any, *, version: str = ...) -> _T: ...

dequantize: _Dequantize

class _W8a8Matmul(Operator):
    @overload  # type: ignore[override]
    def __call__(self, a: np.ndarray[Any, np.dtype[_D]], b: Any, row_scale: Any, column_scale: Any, bias: Any = ..., *, version: str = ...) -> NDArray[Any]: ...
    @overload
    def __call__(self, a: _T, b: Any, row_scale: Any, column_scale: Any, bias: Any = ..., *, version: str = ...) -> _T: ...

w8a8_matmul: _W8a8Matmul

class _GeluQuantize(Operator):
    @overload  # type: ignore[override]
    def __call__(self, x: np.ndarray[Any, np.dtype[_D]], smooth: Any = ..., groups: int = ..., *, version: str = ...) -> tuple[NDArray[np.int8], NDArray[np.float32]]: ...
    @overload
    def __call__(self, x: _T, smooth: Any = ..., groups: int = ..., *, version: str = ...) -> tuple[_T, _T]: ...

gelu_quantize: _GeluQuantize

class _AddLayerNormQuantize(Operator):
    @overload  # type: ignore[override]
    def __call__(self, x: np.ndarray[Any, np.dtype[_D]], residual: Any, g: Any, b: Any, smooth: Any = ..., eps: float = ..., groups: int = ..., *, version: str = ...) -> tuple[np.ndarray[Any, np.dtype[_D]], NDArray[np.int8], NDArray[np.float32]]: ...
    @overload
    def __call__(self, x: _T, residual: Any, g: Any, b: Any, smooth: Any = ..., eps: float = ..., groups: int = ..., *, version: str = ...) -> tuple[_T, _T, _T]: ...

add_layer_norm_quantize: _AddLayerNormQuantize

class _FakeQuantize(Operator):
    @overload  # type: ignore[override]
    def __call__(self, w: np.ndarray[Any, np.dtype[_D]], scale: Any, *, version: str = ...) -> np.ndarray[Any, np.dtype[_D]]: ...
    @overload
    def __call__(self, w: _T, scale: Any, *, version: str = ...) -> _T: ...

fake_quantize: _FakeQuantize

class _FakeQuantizeBackward(Operator):
    @overload  # type: ignore[override]
    def __call__(self, w: np.ndarray[Any, np.dtype[_D]], scale: Any, g: Any, *, version: str = ...) -> tuple[np.ndarray[Any, np.dtype[_D]], NDArray[np.float32]]: ...
    @overload
    def __call__(self, w: _T, scale: Any, g: Any, *, version: str = ...) -> tuple[_T, _T]: ...

fake_quantize_backward: _FakeQuantizeBackward

class _FakeQuantizeGroups(Operator):
    @overload  # type: ignore[override]
    def __call__(self, w: np.ndarray[Any, np.dtype[_D]], scale: Any, offset: Any, bits: int = ..., *, version: str = ...) -> np.ndarray[Any, np.dtype[_D]]: ...
    @overload
    def __call__(self, w: _T, scale: Any, offset: Any, bits: int = ..., *, version: str = ...) -> _T: ...

fake_quantize_groups: _FakeQuantizeGroups

class _QuantizeMx(Operator):
    @overload  # type: ignore[override]
    def __call__(self, x: np.ndarray[Any, np.dtype[_D]], up: int = ..., *, version: str = ...) -> tuple[NDArray[Any], NDArray[np.uint8]]: ...
    @overload
    def __call__(self, x: _T, up: int = ..., *, version: str = ...) -> tuple[_T, _T]: ...

quantize_mx: _QuantizeMx

class _QuantizeMxfp4(Operator):
    @overload  # type: ignore[override]
    def __call__(self, x: np.ndarray[Any, np.dtype[_D]], up: int = ..., *, version: str = ...) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]: ...
    @overload
    def __call__(self, x: _T, up: int = ..., *, version: str = ...) -> tuple[_T, _T]: ...

quantize_mxfp4: _QuantizeMxfp4

class _MxMatmul(Operator):
    @overload  # type: ignore[override]
    def __call__(self, a: np.ndarray[Any, np.dtype[_D]], a_scale: Any, b: Any, b_scale: Any, bias: Any = ..., relu: int = ..., *, version: str = ...) -> NDArray[np.float32]: ...
    @overload
    def __call__(self, a: _T, a_scale: Any, b: Any, b_scale: Any, bias: Any = ..., relu: int = ..., *, version: str = ...) -> _T: ...

mx_matmul: _MxMatmul

class _W4a16Matmul(Operator):
    @overload  # type: ignore[override]
    def __call__(self, x: np.ndarray[Any, np.dtype[_D]], packed: Any, scale: Any, zero: Any = ..., bias: Any = ..., low: Any = ..., *, version: str = ...) -> NDArray[np.float32]: ...
    @overload
    def __call__(self, x: _T, packed: Any, scale: Any, zero: Any = ..., bias: Any = ..., low: Any = ..., *, version: str = ...) -> _T: ...

w4a16_matmul: _W4a16Matmul

class _W8a16Matmul(Operator):
    @overload  # type: ignore[override]
    def __call__(self, x: np.ndarray[Any, np.dtype[_D]], codes: Any, scale: Any, zero: Any = ..., bias: Any = ..., *, version: str = ...) -> NDArray[np.float32]: ...
    @overload
    def __call__(self, x: _T, codes: Any, scale: Any, zero: Any = ..., bias: Any = ..., *, version: str = ...) -> _T: ...

w8a16_matmul: _W8a16Matmul

class _W8a8Linear(Operator):
    @overload  # type: ignore[override]
    def __call__(self, a: np.ndarray[Any, np.dtype[_D]], b: Any, row_scale: Any, column_scale: Any, offset: Any = ..., bias: Any = ..., *, version: str = ...) -> NDArray[np.float32]: ...
    @overload
    def __call__(self, a: _T, b: Any, row_scale: Any, column_scale: Any, offset: Any = ..., bias: Any = ..., *, version: str = ...) -> _T: ...

w8a8_linear: _W8a8Linear

class _W8a8GroupLinear(Operator):
    @overload  # type: ignore[override]
    def __call__(self, a: np.ndarray[Any, np.dtype[_D]], b: Any, row_scale: Any, column_scale: Any, bias: Any = ..., *, version: str = ...) -> NDArray[np.float32]: ...
    @overload
    def __call__(self, a: _T, b: Any, row_scale: Any, column_scale: Any, bias: Any = ..., *, version: str = ...) -> _T: ...

w8a8_group_linear: _W8a8GroupLinear

class _Hadamard(Operator):
    @overload  # type: ignore[override]
    def __call__(self, x: np.ndarray[Any, np.dtype[_D]], *, version: str = ...) -> np.ndarray[Any, np.dtype[_D]]: ...
    @overload
    def __call__(self, x: _T, *, version: str = ...) -> _T: ...

hadamard: _Hadamard

class _ScatterUpdate(Operator):
    @overload  # type: ignore[override]
    def __call__(self, cache: np.ndarray[Any, np.dtype[_D]], index: Any, rows: Any, *, version: str = ...) -> None: ...
    @overload
    def __call__(self, cache: _T, index: Any, rows: Any, *, version: str = ...) -> None: ...

scatter_update: _ScatterUpdate

class _Attention(Operator):
    @overload  # type: ignore[override]
    def __call__(self, q: np.ndarray[Any, np.dtype[_D]], k: Any, v: Any, scale: float = ..., causal: int = ..., bias: Any = ..., mask: Any = ..., first: Any = ..., sinks: Any = ..., window: int = ..., softcap: float = ..., *, version: str = ...) -> np.ndarray[Any, np.dtype[_D]]: ...
    @overload
    def __call__(self, q: _T, k: Any, v: Any, scale: float = ..., causal: int = ..., bias: Any = ..., mask: Any = ..., first: Any = ..., sinks: Any = ..., window: int = ..., softcap: float = ..., *, version: str = ...) -> _T: ...

attention: _Attention

class _PagedAttention(Operator):
    @overload  # type: ignore[override]
    def __call__(self, q: np.ndarray[Any, np.dtype[_D]], keys: Any, values: Any, table: Any, lengths: Any, scale: float = ..., splits: int = ..., *, version: str = ...) -> np.ndarray[Any, np.dtype[_D]]: ...
    @overload
    def __call__(self, q: _T, keys: Any, values: Any, table: Any, lengths: Any, scale: float = ..., splits: int = ..., *, version: str = ...) -> _T: ...

paged_attention: _PagedAttention

class _VarlenAttention(Operator):
    @overload  # type: ignore[override]
    def __call__(self, q: np.ndarray[Any, np.dtype[_D]], k: Any, v: Any, starts: Any, scale: float = ..., causal: int = ..., longest: int = ..., *, version: str = ...) -> np.ndarray[Any, np.dtype[_D]]: ...
    @overload
    def __call__(self, q: _T, k: Any, v: Any, starts: Any, scale: float = ..., causal: int = ..., longest: int = ..., *, version: str = ...) -> _T: ...

varlen_attention: _VarlenAttention

class _AttentionInt8Cache(Operator):
    @overload  # type: ignore[override]
    def __call__(self, q: np.ndarray[Any, np.dtype[_D]], k: Any, key_scale: Any, v: Any, value_scale: Any, scale: float = ..., causal: int = ..., *, version: str = ...) -> np.ndarray[Any, np.dtype[_D]]: ...
    @overload
    def __call__(self, q: _T, k: Any, key_scale: Any, v: Any, value_scale: Any, scale: float = ..., causal: int = ..., *, version: str = ...) -> _T: ...

attention_int8_cache: _AttentionInt8Cache

class _WindowAttention(Operator):
    @overload  # type: ignore[override]
    def __call__(self, q: np.ndarray[Any, np.dtype[_D]], keys: Any, table: Any, lengths: Any, starts: Any, sink: Any, window: int = ..., scale: float = ..., *, version: str = ...) -> np.ndarray[Any, np.dtype[_D]]: ...
    @overload
    def __call__(self, q: _T, keys: Any, table: Any, lengths: Any, starts: Any, sink: Any, window: int = ..., scale: float = ..., *, version: str = ...) -> _T: ...

window_attention: _WindowAttention

class _CompressedAttention(Operator):
    @overload  # type: ignore[override]
    def __call__(self, q: np.ndarray[Any, np.dtype[_D]], keys: Any, compressed: Any, table: Any, places: Any, lengths: Any, sink: Any, ratio: int = ..., window: int = ..., scale: float = ..., *, version: str = ...) -> np.ndarray[Any, np.dtype[_D]]: ...
    @overload
    def __call__(self, q: _T, keys: Any, compressed: Any, table: Any, places: Any, lengths: Any, sink: Any, ratio: int = ..., window: int = ..., scale: float = ..., *, version: str = ...) -> _T: ...

compressed_attention: _CompressedAttention

class _SparseCompressedAttention(Operator):
    @overload  # type: ignore[override]
    def __call__(self, q: np.ndarray[Any, np.dtype[_D]], keys: Any, compressed: Any, table: Any, places: Any, topk: Any, lengths: Any, sink: Any, ratio: int = ..., window: int = ..., scale: float = ..., *, version: str = ...) -> np.ndarray[Any, np.dtype[_D]]: ...
    @overload
    def __call__(self, q: _T, keys: Any, compressed: Any, table: Any, places: Any, topk: Any, lengths: Any, sink: Any, ratio: int = ..., window: int = ..., scale: float = ..., *, version: str = ...) -> _T: ...

sparse_compressed_attention: _SparseCompressedAttention

class _BlockSparseAttention(Operator):
    @overload  # type: ignore[override]
    def __call__(self, q: np.ndarray[Any, np.dtype[_D]], k: Any, v: Any, mask: Any, bx: int = ..., by: int = ..., scale: float = ..., *, version: str = ...) -> tuple[np.ndarray[Any, np.dtype[_D]], NDArray[np.float32]]: ...
    @overload
    def __call__(self, q: _T, k: Any, v: Any, mask: Any, bx: int = ..., by: int = ..., scale: float = ..., *, version: str = ...) -> tuple[_T, _T]: ...

block_sparse_attention: _BlockSparseAttention

class _MlaProlog(Operator):
    @overload  # type: ignore[override]
    def __call__(self, x: np.ndarray[Any, np.dtype[_D]], w_dq: Any, w_uq: Any, w_uk: Any, w_dkvkr: Any, g_cq: Any, g_ckv: Any, cos: Any, sin: Any, index: Any, kv_cache: Any, kr_cache: Any, eps: float = ..., *, version: str = ...) -> tuple[np.ndarray[Any, np.dtype[_D]], np.ndarray[Any, np.dtype[_D]]]: ...
    @overload
    def __call__(self, x: _T, w_dq: Any, w_uq: Any, w_uk: Any, w_dkvkr: Any, g_cq: Any, g_ckv: Any, cos: Any, sin: Any, index: Any, kv_cache: Any, kr_cache: Any, eps: float = ..., *, version: str = ...) -> tuple[_T, _T]: ...

mla_prolog: _MlaProlog

class _MlaPrologQuant(Operator):
    @overload  # type: ignore[override]
    def __call__(self, x: np.ndarray[Any, np.dtype[_D]], w_dq: Any, w_uq: Any, w_uq_scale: Any, w_uk: Any, w_dkvkr: Any, g_cq: Any, g_ckv: Any, cos: Any, sin: Any, index: Any, kv_cache: Any, kr_cache: Any, kv_scale: Any, smooth: Any = ..., eps: float = ..., *, version: str = ...) -> tuple[np.ndarray[Any, np.dtype[_D]], np.ndarray[Any, np.dtype[_D]], NDArray[np.int8], NDArray[np.float32]]: ...
    @overload
    def __call__(self, x: _T, w_dq: Any, w_uq: Any, w_uq_scale: Any, w_uk: Any, w_dkvkr: Any, g_cq: Any, g_ckv: Any, cos: Any, sin: Any, index: Any, kv_cache: Any, kr_cache: Any, kv_scale: Any, smooth: Any = ..., eps: float = ..., *, version: str = ...) -> tuple[_T, _T, _T, _T]: ...

mla_prolog_quant: _MlaPrologQuant

class _Topk(Operator):
    @overload  # type: ignore[override]
    def __call__(self, scores: np.ndarray[Any, np.dtype[_D]], lengths: Any = ..., k: int = ..., s: int = ..., *, version: str = ...) -> tuple[NDArray[np.float32], NDArray[np.int32]]: ...
    @overload
    def __call__(self, scores: _T, lengths: Any = ..., k: int = ..., s: int = ..., *, version: str = ...) -> tuple[_T, _T]: ...

topk: _Topk

class _LightningIndexer(Operator):
    @overload  # type: ignore[override]
    def __call__(self, q: np.ndarray[Any, np.dtype[_D]], q_scale: Any, keys: Any, k_scale: Any, weights: Any, lengths: Any, table: Any, k: int = ..., *, version: str = ...) -> NDArray[np.int32]: ...
    @overload
    def __call__(self, q: _T, q_scale: Any, keys: Any, k_scale: Any, weights: Any, lengths: Any, table: Any, k: int = ..., *, version: str = ...) -> _T: ...

lightning_indexer: _LightningIndexer

class _IndexerProlog(Operator):
    @overload  # type: ignore[override]
    def __call__(self, qn: np.ndarray[Any, np.dtype[_D]], qn_scale: Any, w_qb: Any, w_qb_scale: Any, x: Any, w_k: Any, w_proj: Any, ln_g: Any, ln_b: Any, cos: Any, sin: Any, hadamard_q: Any, hadamard_k: Any, index: Any, k_cache: Any, k_scale_cache: Any, eps: float = ..., *, version: str = ...) -> tuple[NDArray[np.int8], NDArray[np.float16], NDArray[np.float16]]: ...
    @overload
    def __call__(self, qn: _T, qn_scale: Any, w_qb: Any, w_qb_scale: Any, x: Any, w_k: Any, w_proj: Any, ln_g: Any, ln_b: Any, cos: Any, sin: Any, hadamard_q: Any, hadamard_k: Any, index: Any, k_cache: Any, k_scale_cache: Any, eps: float = ..., *, version: str = ...) -> tuple[_T, _T, _T]: ...

indexer_prolog: _IndexerProlog

class _MlaPrologV4(Operator):
    @overload  # type: ignore[override]
    def __call__(self, x: np.ndarray[Any, np.dtype[_D]], w_dq: Any, w_uq: Any, w_kv: Any, g_q: Any, g_kv: Any, cos: Any, sin: Any, n: int = ..., eps: float = ..., *, version: str = ...) -> tuple[np.ndarray[Any, np.dtype[_D]], np.ndarray[Any, np.dtype[_D]]]: ...
    @overload
    def __call__(self, x: _T, w_dq: Any, w_uq: Any, w_kv: Any, g_q: Any, g_kv: Any, cos: Any, sin: Any, n: int = ..., eps: float = ..., *, version: str = ...) -> tuple[_T, _T]: ...

mla_prolog_v4: _MlaPrologV4

class _MlaPrologV4Quant(Operator):
    @overload  # type: ignore[override]
    def __call__(self, x: np.ndarray[Any, np.dtype[_D]], w_dq: Any, w_uq: Any, w_uq_scale: Any, w_kv: Any, g_q: Any, g_kv: Any, cos: Any, sin: Any, n: int = ..., eps: float = ..., *, version: str = ...) -> tuple[np.ndarray[Any, np.dtype[_D]], np.ndarray[Any, np.dtype[_D]], NDArray[np.int8], NDArray[np.float32]]: ...
    @overload
    def __call__(self, x: _T, w_dq: Any, w_uq: Any, w_uq_scale: Any, w_kv: Any, g_q: Any, g_kv: Any, cos: Any, sin: Any, n: int = ..., eps: float = ..., *, version: str = ...) -> tuple[_T, _T, _T, _T]: ...

mla_prolog_v4_quant: _MlaPrologV4Quant

class _IndexerPrologV4(Operator):
    @overload  # type: ignore[override]
    def __call__(self, qn: np.ndarray[Any, np.dtype[_D]], qn_scale: Any, w_qb: Any, w_qb_scale: Any, x: Any, w_proj: Any, cos: Any, sin: Any, hadamard: Any, *, version: str = ...) -> tuple[NDArray[np.int8], NDArray[np.float16], NDArray[np.float16]]: ...
    @overload
    def __call__(self, qn: _T, qn_scale: Any, w_qb: Any, w_qb_scale: Any, x: Any, w_proj: Any, cos: Any, sin: Any, hadamard: Any, *, version: str = ...) -> tuple[_T, _T, _T]: ...

indexer_prolog_v4: _IndexerPrologV4

class _Compressor(Operator):
    @overload  # type: ignore[override]
    def __call__(self, x: np.ndarray[Any, np.dtype[_D]], w_kv: Any, w_gate: Any, ape: Any, gain: Any, cos: Any, sin: Any, start: Any, table: Any, kv_state: Any, score_state: Any, hadamard: Any = ..., eps: float = ..., *, version: str = ...) -> np.ndarray[Any, np.dtype[_D]]: ...
    @overload
    def __call__(self, x: _T, w_kv: Any, w_gate: Any, ape: Any, gain: Any, cos: Any, sin: Any, start: Any, table: Any, kv_state: Any, score_state: Any, hadamard: Any = ..., eps: float = ..., *, version: str = ...) -> _T: ...

compressor: _Compressor

class _SparseAttention(Operator):
    @overload  # type: ignore[override]
    def __call__(self, q_nope: np.ndarray[Any, np.dtype[_D]], q_rope: Any, keys: Any, rope: Any, topk: Any, table: Any, lengths: Any, scale: float = ..., *, version: str = ...) -> np.ndarray[Any, np.dtype[_D]]: ...
    @overload
    def __call__(self, q_nope: _T, q_rope: Any, keys: Any, rope: Any, topk: Any, table: Any, lengths: Any, scale: float = ..., *, version: str = ...) -> _T: ...

sparse_attention: _SparseAttention

class _SparseAttentionQuant(Operator):
    @overload  # type: ignore[override]
    def __call__(self, q_nope: np.ndarray[Any, np.dtype[_D]], q_rope: Any, keys: Any, rope: Any, scales: Any, topk: Any, table: Any, lengths: Any, scale: float = ..., *, version: str = ...) -> np.ndarray[Any, np.dtype[_D]]: ...
    @overload
    def __call__(self, q_nope: _T, q_rope: Any, keys: Any, rope: Any, scales: Any, topk: Any, table: Any, lengths: Any, scale: float = ..., *, version: str = ...) -> _T: ...

sparse_attention_quant: _SparseAttentionQuant

class _MoeGate(Operator):
    @overload  # type: ignore[override]
    def __call__(self, x: np.ndarray[Any, np.dtype[_D]], w: Any, *, version: str = ...) -> NDArray[np.float32]: ...
    @overload
    def __call__(self, x: _T, w: Any, *, version: str = ...) -> _T: ...

moe_gate: _MoeGate

class _SelectExperts(Operator):
    @overload  # type: ignore[override]
    def __call__(self, logits: np.ndarray[Any, np.dtype[_D]], bias: Any = ..., k: int = ..., groups: int = ..., kept: int = ..., sigmoid: int = ..., renormalize: int = ..., scaling: float = ..., *, version: str = ...) -> tuple[NDArray[np.int32], NDArray[np.float32]]: ...
    @overload
    def __call__(self, logits: _T, bias: Any = ..., k: int = ..., groups: int = ..., kept: int = ..., sigmoid: int = ..., renormalize: int = ..., scaling: float = ..., *, version: str = ...) -> tuple[_T, _T]: ...

select_experts: _SelectExperts

class _PermuteTokens(Operator):
    @overload  # type: ignore[override]
    def __call__(self, x: np.ndarray[Any, np.dtype[_D]], ids: Any, experts: int = ..., *, version: str = ...) -> tuple[np.ndarray[Any, np.dtype[_D]], NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]: ...
    @overload
    def __call__(self, x: _T, ids: Any, experts: int = ..., *, version: str = ...) -> tuple[_T, _T, _T, _T]: ...

permute_tokens: _PermuteTokens

class _GroupedMatmul(Operator):
    @overload  # type: ignore[override]
    def __call__(self, x: np.ndarray[Any, np.dtype[_D]], w: Any, ends: Any, *, version: str = ...) -> np.ndarray[Any, np.dtype[_D]]: ...
    @overload
    def __call__(self, x: _T, w: Any, ends: Any, *, version: str = ...) -> _T: ...

grouped_matmul: _GroupedMatmul

class _CombineExperts(Operator):
    @overload  # type: ignore[override]
    def __call__(self, y: np.ndarray[Any, np.dtype[_D]], position: Any, weights: Any, *, version: str = ...) -> np.ndarray[Any, np.dtype[_D]]: ...
    @overload
    def __call__(self, y: _T, position: Any, weights: Any, *, version: str = ...) -> _T: ...

combine_experts: _CombineExperts

class _BlockAttention(Operator):
    @overload  # type: ignore[override]
    def __call__(self, v: np.ndarray[Any, np.dtype[_D]], w: Any, gain: Any = ..., scale: float = ..., *, version: str = ...) -> np.ndarray[Any, np.dtype[_D]]: ...
    @overload
    def __call__(self, v: _T, w: Any, gain: Any = ..., scale: float = ..., *, version: str = ...) -> _T: ...

block_attention: _BlockAttention

class _Sinkhorn(Operator):
    @overload  # type: ignore[override]
    def __call__(self, x: np.ndarray[Any, np.dtype[_D]], rounds: int = ..., *, version: str = ...) -> np.ndarray[Any, np.dtype[_D]]: ...
    @overload
    def __call__(self, x: _T, rounds: int = ..., *, version: str = ...) -> _T: ...

sinkhorn: _Sinkhorn

class _HyperConnections(Operator):
    @overload  # type: ignore[override]
    def __call__(self, x: np.ndarray[Any, np.dtype[_D]], w: Any, scale: Any, base: Any, rounds: int = ..., *, version: str = ...) -> tuple[np.ndarray[Any, np.dtype[_D]], NDArray[np.float32], NDArray[np.float32]]: ...
    @overload
    def __call__(self, x: _T, w: Any, scale: Any, base: Any, rounds: int = ..., *, version: str = ...) -> tuple[_T, _T, _T]: ...

hyper_connections: _HyperConnections

class _GatedDeltaRule(Operator):
    @overload  # type: ignore[override]
    def __call__(self, q: np.ndarray[Any, np.dtype[_D]], k: Any, v: Any, gate: Any, beta: Any, state: Any, *, version: str = ...) -> np.ndarray[Any, np.dtype[_D]]: ...
    @overload
    def __call__(self, q: _T, k: Any, v: Any, gate: Any, beta: Any, state: Any, *, version: str = ...) -> _T: ...

gated_delta_rule: _GatedDeltaRule

class _GatedDeltaSequence(Operator):
    @overload  # type: ignore[override]
    def __call__(self, q: np.ndarray[Any, np.dtype[_D]], k: Any, v: Any, gate: Any, beta: Any, state: Any, *, version: str = ...) -> tuple[np.ndarray[Any, np.dtype[_D]], np.ndarray[Any, np.dtype[_D]]]: ...
    @overload
    def __call__(self, q: _T, k: Any, v: Any, gate: Any, beta: Any, state: Any, *, version: str = ...) -> tuple[_T, _T]: ...

gated_delta_sequence: _GatedDeltaSequence

class _SumLstm(Operator):
    @overload  # type: ignore[override]
    def __call__(self, states: np.ndarray[Any, np.dtype[_D]], z: Any, prev: Any, w_c: Any, b_c: Any, w_s: Any, b_s: Any, alpha: float = ..., eps: float = ..., *, version: str = ...) -> tuple[np.ndarray[Any, np.dtype[_D]], np.ndarray[Any, np.dtype[_D]]]: ...
    @overload
    def __call__(self, states: _T, z: Any, prev: Any, w_c: Any, b_c: Any, w_s: Any, b_s: Any, alpha: float = ..., eps: float = ..., *, version: str = ...) -> tuple[_T, _T]: ...

sum_lstm: _SumLstm

class _CrossEntropy(Operator):
    @overload  # type: ignore[override]
    def __call__(self, logits: np.ndarray[Any, np.dtype[_D]], labels: Any, *, version: str = ...) -> NDArray[np.float32]: ...
    @overload
    def __call__(self, logits: _T, labels: Any, *, version: str = ...) -> _T: ...

cross_entropy: _CrossEntropy

class _CrossEntropyBackward(Operator):
    @overload  # type: ignore[override]
    def __call__(self, logits: np.ndarray[Any, np.dtype[_D]], labels: Any, loss: Any, dloss: Any, *, version: str = ...) -> np.ndarray[Any, np.dtype[_D]]: ...
    @overload
    def __call__(self, logits: _T, labels: Any, loss: Any, dloss: Any, *, version: str = ...) -> _T: ...

cross_entropy_backward: _CrossEntropyBackward

class _KlDivergence(Operator):
    @overload  # type: ignore[override]
    def __call__(self, log_q: np.ndarray[Any, np.dtype[_D]], p: Any, *, version: str = ...) -> NDArray[np.float32]: ...
    @overload
    def __call__(self, log_q: _T, p: Any, *, version: str = ...) -> _T: ...

kl_divergence: _KlDivergence

class _Adamw(Operator):
    @overload  # type: ignore[override]
    def __call__(self, w: np.ndarray[Any, np.dtype[_D]], g: Any, m: Any, v: Any, t: int = ..., rate: float = ..., beta1: float = ..., beta2: float = ..., eps: float = ..., decay: float = ..., *, version: str = ...) -> None: ...
    @overload
    def __call__(self, w: _T, g: Any, m: Any, v: Any, t: int = ..., rate: float = ..., beta1: float = ..., beta2: float = ..., eps: float = ..., decay: float = ..., *, version: str = ...) -> None: ...

adamw: _Adamw

class _Sepia(Operator):
    @overload  # type: ignore[override]
    def __call__(self, x: np.ndarray[Any, np.dtype[_D]], *, version: str = ...) -> np.ndarray[Any, np.dtype[_D]]: ...
    @overload
    def __call__(self, x: _T, *, version: str = ...) -> _T: ...

sepia: _Sepia

class _SepiaBackward(Operator):
    @overload  # type: ignore[override]
    def __call__(self, x: np.ndarray[Any, np.dtype[_D]], dy: Any, *, version: str = ...) -> np.ndarray[Any, np.dtype[_D]]: ...
    @overload
    def __call__(self, x: _T, dy: Any, *, version: str = ...) -> _T: ...

sepia_backward: _SepiaBackward

class _ConvBnRelu(Operator):
    @overload  # type: ignore[override]
    def __call__(self, x: np.ndarray[Any, np.dtype[_D]], weight: Any, gain: Any, bias: Any, stride: int | tuple[int, int] = ..., padding: int | tuple[int, int] = ..., groups: int = ..., dilation: int | tuple[int, int] = ..., *, version: str = ...) -> np.ndarray[Any, np.dtype[_D]]: ...
    @overload
    def __call__(self, x: _T, weight: Any, gain: Any, bias: Any, stride: int | tuple[int, int] = ..., padding: int | tuple[int, int] = ..., groups: int = ..., dilation: int | tuple[int, int] = ..., *, version: str = ...) -> _T: ...

conv_bn_relu: _ConvBnRelu

class _QuantizeImage(Operator):
    @overload  # type: ignore[override]
    def __call__(self, x: np.ndarray[Any, np.dtype[_D]], scale: Any, top: int = ..., left: int = ..., bottom: int = ..., right: int = ..., *, version: str = ...) -> NDArray[np.int8]: ...
    @overload
    def __call__(self, x: _T, scale: Any, top: int = ..., left: int = ..., bottom: int = ..., right: int = ..., *, version: str = ...) -> _T: ...

quantize_image: _QuantizeImage

class _ConvInt8(Operator):
    @overload  # type: ignore[override]
    def __call__(self, x: np.ndarray[Any, np.dtype[_D]], weight: Any, scale: Any, bias: Any = ..., stride_h: int = ..., stride_w: int = ..., *, version: str = ...) -> NDArray[np.float32]: ...
    @overload
    def __call__(self, x: _T, weight: Any, scale: Any, bias: Any = ..., stride_h: int = ..., stride_w: int = ..., *, version: str = ...) -> _T: ...

conv_int8: _ConvInt8

class _DepthwiseConvInt8(Operator):
    @overload  # type: ignore[override]
    def __call__(self, x: np.ndarray[Any, np.dtype[_D]], weight: Any, scale: Any, bias: Any = ..., stride_h: int = ..., stride_w: int = ..., *, version: str = ...) -> NDArray[np.float32]: ...
    @overload
    def __call__(self, x: _T, weight: Any, scale: Any, bias: Any = ..., stride_h: int = ..., stride_w: int = ..., *, version: str = ...) -> _T: ...

depthwise_conv_int8: _DepthwiseConvInt8
