"""A use of every public name of `triton.language`, as a kernel writes it."""

from __future__ import annotations

# t and u are tiles of 64 float32, n of int32, w of uint32, m is 8 x 8; p and q are pointers to t and n.
# fmt: off
USES = {
    "PropagateNan": "tl.maximum(t, u, propagate_nan=tl.PropagateNan.ALL)",
    "TRITON_MAX_TENSOR_NUMEL": "tl.static_assert(tl.TRITON_MAX_TENSOR_NUMEL > 4096)",
    "add": "tl.add(n, n, sanitize_overflow=False)", "sub": "tl.sub(t, u)", "mul": "tl.mul(t, u)",
    "advance": "tl.load(tl.advance(b, (8, 0)), boundary_check=(0, 1))", "arange": "tl.arange(0, 64)",
    "argmax": "tl.argmax(t, 0)", "argmin": "tl.argmin(m, axis=1, tie_break_left=True)",
    "associative_scan": "tl.associative_scan(t, 0, combine)", "assume": "tl.assume(k > 0)",
    "atomic_add": "tl.atomic_add(p, t, sem='relaxed')", "atomic_and": "tl.atomic_and(q, n)",
    "atomic_cas": "tl.atomic_cas(q, n, n)", "atomic_load": "tl.atomic_load(q)", "atomic_max": "tl.atomic_max(p, t)",
    "atomic_min": "tl.atomic_min(q, n)", "atomic_or": "tl.atomic_or(q, n)", "atomic_poll": "tl.atomic_poll(q, 1)",
    "atomic_store": "tl.atomic_store(q, n)", "atomic_xchg": "tl.atomic_xchg(p, t)", "atomic_xor": "tl.atomic_xor(q, n)",
    "bitonic_merge": "tl.bitonic_merge(t)", "block_type": "tl.block_type(tl.float32, [8, 8])",
    "broadcast": "tl.broadcast(t, m[0:1, 0:1])", "broadcast_to": "tl.broadcast_to(t[:, None], (64, 4))",
    "cast": "tl.cast(t, tl.float16, fp_downcast_rounding='rtz')", "cat": "tl.cat(t, u, can_reorder=True)",
    "cdiv": "tl.cdiv(k, 8)", "clamp": "tl.clamp(t, 0.0, 1.0)", "condition": "tl.condition(k > 0)",
    "constexpr": "tl.constexpr(3)", "constexpr_type": "tl.constexpr_type(3)", "constexpr_function": "half(8)",
    "cumprod": "tl.cumprod(t, 0, reverse=True)", "cumsum": "tl.cumsum(m, axis=1)",
    "debug_barrier": "tl.debug_barrier()", "device_assert": "tl.device_assert(t == t, 'nan', mask=n > 0)",
    "device_print": "tl.device_print('t', t)", "div_rn": "tl.div_rn(t, u)",
    "dot": "tl.dot(m, m, acc=m, input_precision='ieee', out_dtype=tl.float32)",
    "dot_scaled": "tl.dot_scaled(e, None, 'e4m3', e, None, 'e4m3')", "dtype": "t.to(tl.dtype('fp16'))",
    "expand_dims": "tl.expand_dims(t, 0)", "expect_zero": "tl.expect_zero(t, n > 0)",
    "extra": "tl.extra.libdevice.tanh(t)", "fdiv": "tl.fdiv(t, u, ieee_rounding=True)", "flip": "tl.flip(t, 0)",
    "fma": "tl.fma(t, u, t)", "full": "tl.full((4,), 2, tl.int8)", "gather": "tl.gather(t, n % 64, 0)",
    "histogram": "tl.histogram(n, 16)",
    "inline_asm_elementwise": "tl.inline_asm_elementwise('tanh.approx.f32 $0, $1;', '=f,f', [t], tl.float32, True, 1)",
    "interleave": "tl.interleave(t, u)", "join": "tl.join(t, u)",
    "load": "tl.load(p, mask=n > 0, other=0.0, cache_modifier='.cg', eviction_policy='evict_last', volatile=False)",
    "load_tensor_descriptor": "tl.load_tensor_descriptor(d, [0, 0])",
    "make_block_ptr": "tl.load(b, boundary_check=(0,), padding_option='zero')",
    "make_tensor_descriptor": "d.load([0, 0])", "map_elementwise": "tl.map_elementwise(combine, t, u)",
    "math": "tl.math.exp2(t)", "max": "tl.max(t, axis=0, return_indices=True)",
    "max_constancy": "tl.max_constancy(n, 8)",
    "max_contiguous": "tl.max_contiguous(tl.multiple_of(n, 8), 8)", "maximum": "tl.maximum(t, u)",
    "min": "tl.min(m, 1, keep_dims=True)", "minimum": "tl.minimum(t, 1.0)", "multiple_of": "tl.multiple_of(n, 8)",
    "num_programs": "tl.num_programs(axis=0)",
    "pair_uniform_to_normal": "tl.pair_uniform_to_normal(tl.rand(3, n), tl.rand(4, n))",
    "permute": "tl.permute(m, (1, 0))", "philox": "tl.philox(3, w, w, w, w)",
    "philox_impl": "tl.philox_impl(w, w, w, w, w, w)", "pointer_type": "p.to(tl.pointer_type(tl.int32))",
    "program_id": "tl.program_id(0)", "rand": "tl.rand(3, n)", "rand4x": "tl.rand4x(3, n)",
    "randint": "tl.randint(3, n)", "randint4x": "tl.randint4x(3, n)", "randn": "tl.randn(3, n)",
    "randn4x": "tl.randn4x(3, n)", "range": "[tl.store(p, t) for _ in ()]" , "ravel": "tl.ravel(m)",
    "reduce": "tl.reduce(m, 1, combine, keep_dims=True)", "reduce_or": "tl.reduce_or(n, 0)",
    "reshape": "tl.reshape(t, 8, 8)", "slice": "m[0:4]", "softmax": "tl.softmax(m, 1)",
    "sort": "tl.sort(t, descending=True)", "split": "tl.split(tl.join(t, u))", "squeeze": "tl.squeeze(t[None, :], 0)",
    "static_assert": "tl.static_assert(True, 'always')", "static_print": "tl.static_print('shown once', 64)",
    "store": "tl.store(p, t, mask=n > 0, cache_modifier='.wb', eviction_policy='evict_first')",
    "store_tensor_descriptor": "tl.store_tensor_descriptor(d, [0, 0], m)", "sum": "tl.sum(t, axis=0, dtype=tl.float64)",
    "swizzle2d": "tl.swizzle2d(k, k, 8, 8, 2)", "target_info": "tl.static_assert(not tl.target_info.is_cuda())",
    "tensor": "isinstance(t, tl.tensor)", "to_tensor": "tl.to_tensor(3)", "topk": "tl.topk(t, 8)",
    "trans": "tl.trans(m)", "tuple": "tl.tuple((t, u))", "uint32_to_uniform_float": "tl.uint32_to_uniform_float(w)",
    "uint_to_uniform_float": "tl.uint_to_uniform_float(w)", "umulhi": "tl.umulhi(w, w)",
    "unsqueeze": "tl.unsqueeze(t, 0)", "view": "tl.view(t, (8, 8))", "where": "tl.where(n > 0, t, 0.0)",
    "xor_sum": "tl.xor_sum(n, 0)", "zeros": "tl.zeros((4, 4), dtype=tl.float32)", "zeros_like": "tl.zeros_like(t)",
    **{name: f"tl.{name}(t)" for name in (
        "abs", "ceil", "cos", "erf", "exp", "exp2", "floor", "log", "log2", "rsqrt", "sigmoid", "sin", "sqrt",
        "sqrt_rn")},
    **{name: f"t.to(tl.{name})" for name in (
        "bfloat16", "float16", "float32", "float64", "float8e4", "float8e4nv", "float8e5", "float8e4b8", "float8e5b16",
        "float8e4b15", "int1", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")},
}
# fmt: on
USES["range"] = "loop(k)"
USES["static_range"] = "unrolled(t)"
# Types that are annotations, or that nothing is made of.
TYPES = ("builtin", "const", "pi32_t", "tensor_descriptor", "void")
