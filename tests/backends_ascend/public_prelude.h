// What the compiler of an Ascend chip has built in, as far as the public headers name it in their declarations: a
// compiler of the host parses them then. Functions are declared by `public_headers.py`, which asks what is missing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#define __aicore__
#define __global__
#define __host__
#define __vector__
#define __cube__
#define __mix__(...)
#define __gm__
#define __ubuf__
#define __cbuf__
#define __ca__
#define __cb__
#define __cc__
#define __fbuf__
#define __ssbuf__
#define __biasbuf__
#define __BLOCK_LOCAL__
#define __WORKGROUP_LOCAL__
#define __VEC_SCOPE__
#define __simd_callee__
#define __simd_vf__
#define __simt_callee__
#define __simt_vf__
#define __sync_alias__
#define __sync_noalias__
#define __check_sync_alias__
#define __in_pipe__(...)
#define __out_pipe__(...)
#define __inout_pipe__(...)
#define GM_ADDR __gm__ uint8_t*

using half = _Float16;

// No number by itself, but it has constants.
struct bfloat16_t {
    uint16_t bits;
    bfloat16_t() = default;
    template <typename T, typename = std::enable_if_t<std::is_same_v<T, int>>>
    bfloat16_t(T);
};

enum hifloat8_t : uint8_t {};
enum float8_e5m2_t : uint8_t {};
enum float8_e4m3_t : uint8_t {};
enum float8_e8m0_t : uint8_t {};
enum float4_e1m2x2_t : uint8_t {};
enum float4_e2m1x2_t : uint8_t {};
enum hifloat4x2_t : uint8_t {};
enum int4x2_t : uint8_t {};

enum pipe_t { PIPE_S, PIPE_V, PIPE_M, PIPE_MTE1, PIPE_MTE2, PIPE_MTE3, PIPE_ALL, PIPE_MTE4, PIPE_MTE5, PIPE_V2, PIPE_FIX };
enum event_t { EVENT_ID0, EVENT_ID1, EVENT_ID2, EVENT_ID3, EVENT_ID4, EVENT_ID5, EVENT_ID6, EVENT_ID7 };
enum QuantMode_t {
    NoQuant, F322F16, F322BF16, DEQF16, VDEQF16, QF322B8_PRE, VQF322B8_PRE, REQ8, VREQ8, QS322BF16_PRE, VQS322BF16_PRE,
    QF322F16_PRE, VQF322F16_PRE, QF322BF16_PRE, VQF322BF16_PRE, QF322F32_PRE, VQF322F32_PRE, QF322FP8_PRE,
    VQF322FP8_PRE, QF322HIF8_PRE, VQF322HIF8_PRE, QF322HIF8_PRE_HYBRID, VQF322HIF8_PRE_HYBRID
};
enum QuantMode_post { NoConv };
enum cache_line_t { SINGLE_CACHE_LINE, ENTIRE_DATA_CACHE };
enum dcci_dst_t { CACHELINE_ALL, CACHELINE_UB, CACHELINE_OUT, CACHELINE_ATOMIC };
enum mem_dsb_t {};
enum mem_t {};
enum pad_t { PAD_NONE };
enum atomic_type_t {};
enum atomic_op_t {};
enum addr_cal_mode_t { inc, dec };
enum ub_addr8_t { VA0, VA1, VA2, VA3, VA4, VA5, VA6, VA7 };
enum vpart_t { L128, H128 };
enum Order_t { ONLY_VALUE, ONLY_INDEX, VALUE_INDEX, INDEX_VALUE };

// What a built-in function gives, wherever it is used.
struct Anything {
    operator uint64_t() const;
    template <typename T, typename = std::enable_if_t<std::is_class_v<T> || std::is_pointer_v<T>>>
    operator T() const;
};

// Registers of 3510 and the words of its vector functions.
#define PYPTO_REGISTER(NAME) \
    struct vector_##NAME {};
PYPTO_REGISTER(bool)
PYPTO_REGISTER(align)
PYPTO_REGISTER(address)
PYPTO_REGISTER(hif8)
PYPTO_REGISTER(f8e4m3)
PYPTO_REGISTER(f8e5m2)
PYPTO_REGISTER(f8e8m0)
PYPTO_REGISTER(f4e2m1x2)
PYPTO_REGISTER(f4e1m2x2)
PYPTO_REGISTER(s4x2)
PYPTO_REGISTER(s8)
PYPTO_REGISTER(u8)
PYPTO_REGISTER(s16)
PYPTO_REGISTER(u16)
PYPTO_REGISTER(s32)
PYPTO_REGISTER(u32)
PYPTO_REGISTER(s64)
PYPTO_REGISTER(u64)
PYPTO_REGISTER(f16)
PYPTO_REGISTER(f32)
PYPTO_REGISTER(bf16)
#undef PYPTO_REGISTER

enum class Bin {};
enum class Dist {};
enum class DistVST {};
enum class HiloPart {};
enum class Mode {};
enum class Order {};
enum class Part {};
enum class Part_T {};
enum class Pat {};
enum class Pos {};
enum class Post {};
enum class ROUND { R, A, F, C, Z, O, H };
enum class RoundingSaturation {};
enum class Spr {};
enum class StoreMode {};
enum vector_word_t {
    POST_UPDATE, LOWER, HIGHER, VST_VLD, VLD_VST, VST_VST, VST_LD, VST_ST, VLD_ST, ST_VLD, ST_VST, LD_VST, VV_ALL,
    VS_ALL, SV_ALL, PAT_ALL, PAT_ALLF, MODE_ZEROING, ROUND_R, ROUND_Z, RS_DISABLE, PART_EVEN
};

// Dumps of tensors have overloads for memories, which a host does not tell apart; printing belongs to threads.
#define IMPL_UTILS_DEBUG_ASC_AICORE_DUMP_IMPL_H
#define IMPL_UTILS_DEBUG_ASC_PRINTF_SIMT_IMPL_H
#define IMPL_UTILS_DEBUG_ASC_ASSERT_SIMT_IMPL_H
#define PYPTO_BUILTIN(NAME)         \
    template <typename... Arguments> \
    Anything NAME(const Arguments&...);
namespace __asc_aicore {
PYPTO_BUILTIN(asc_dump)
PYPTO_BUILTIN(asc_dump_gm)
PYPTO_BUILTIN(asc_dump_cbuf)
PYPTO_BUILTIN(asc_dump_l1buf)
PYPTO_BUILTIN(asc_dump_ubuf)
PYPTO_BUILTIN(asc_dump_shape_impl)
}  // namespace __asc_aicore
namespace __cce_scalar {
PYPTO_BUILTIN(copy_ubuf_to_ubuf)
}
namespace bisheng::cce {
PYPTO_BUILTIN(metrics_prof_start)
PYPTO_BUILTIN(metrics_prof_stop)
template <auto...>
void mark_stamp();
template <auto..., typename... Arguments>
void mark_stamp(const Arguments&...);
}  // namespace bisheng::cce
template <auto...>
void asc_mark_stamp();
