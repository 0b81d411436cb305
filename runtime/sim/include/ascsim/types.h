// The types and enumerations of the Ascend C basic API, as its documentation names them.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "ascsim/abi.h"

namespace ascsim {

inline float widen_half(uint16_t bits) {
    const uint32_t sign = (bits & 0x8000u) << 16, exponent = (bits >> 10) & 31u, fraction = bits & 1023u;
    uint32_t out;
    if (exponent == 31) {
        out = sign | 0x7F800000u | fraction << 13;
    } else if (exponent != 0) {
        out = sign | (exponent + 112) << 23 | fraction << 13;
    } else {
        const float tiny = static_cast<float>(fraction) * 5.9604644775390625e-8f;  // 2^-24
        std::memcpy(&out, &tiny, 4);
        out |= sign;
    }
    float value;
    std::memcpy(&value, &out, 4);
    return value;
}

// To nearest even, from a double: rounding by way of float would round twice.
inline uint16_t narrow_half(double value) {
    const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    const double size = std::fabs(value);
    if (std::isnan(value)) return static_cast<uint16_t>(sign | 0x7E00);
    if (size >= 65520.0) return static_cast<uint16_t>(sign | 0x7C00);
    if (size < 6.103515625e-05) return static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(size * 16777216.0)));
    int exponent = 0;
    const double fraction = std::frexp(size, &exponent);  // in [0.5, 1)
    const auto steps = static_cast<uint32_t>(std::nearbyint(fraction * 2048.0));
    return static_cast<uint16_t>(sign | ((static_cast<uint32_t>(exponent + 13) << 10) + steps));
}

inline float widen_bfloat(uint16_t bits) {
    const uint32_t wide = static_cast<uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &wide, 4);
    return value;
}

inline uint16_t narrow_bfloat(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 0x40);
    return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

}  // namespace ascsim

struct half {
    uint16_t bits = 0;
    half() = default;
    half(float value) : bits(ascsim::narrow_half(value)) {}
    half(double value) : bits(ascsim::narrow_half(value)) {}
    half(int value) : bits(ascsim::narrow_half(value)) {}
    operator float() const { return ascsim::widen_half(bits); }
};

// Operands of products on dav-3510, and bytes to all else.
struct fp8_e4m3fn_t {
    uint8_t bits = 0;
};
struct fp8_e5m2_t {
    uint8_t bits = 0;
};

// No number by itself: ToFloat and ToBfloat16 convert it. It has whole constants.
struct bfloat16_t {
    uint16_t bits = 0;
    bfloat16_t() = default;
    template <typename T, typename = std::enable_if_t<std::is_same_v<T, int>>>
    bfloat16_t(T value) : bits(ascsim::narrow_bfloat(static_cast<float>(value))) {}
};

namespace ascsim {

template <typename T>
double number_of(T value) {
    if constexpr (std::is_same_v<T, bfloat16_t>) return static_cast<double>(widen_bfloat(value.bits));
    else return static_cast<double>(value);
}

template <typename T>
constexpr DType dtype_of() {
    using U = std::remove_cv_t<T>;
    if constexpr (std::is_same_v<U, half>) return DType::F16;
    else if constexpr (std::is_same_v<U, bfloat16_t>) return DType::BF16;
    else if constexpr (std::is_same_v<U, float>) return DType::F32;
    else if constexpr (std::is_same_v<U, fp8_e4m3fn_t>) return DType::F8E4M3;
    else if constexpr (std::is_same_v<U, fp8_e5m2_t>) return DType::F8E5M2;
    else {
        static_assert(std::is_integral_v<U>, "Ascend C tensors hold half, bfloat16_t, float and integers");
        constexpr bool is_signed = std::is_signed_v<U>;
        if constexpr (sizeof(U) == 1) return is_signed ? DType::I8 : DType::U8;
        else if constexpr (sizeof(U) == 2) return is_signed ? DType::I16 : DType::U16;
        else if constexpr (sizeof(U) == 4) return is_signed ? DType::I32 : DType::U32;
        else return is_signed ? DType::I64 : DType::U64;
    }
}

}  // namespace ascsim

enum pipe_t { PIPE_S, PIPE_V, PIPE_M, PIPE_MTE1, PIPE_MTE2, PIPE_MTE3, PIPE_FIX, PIPE_ALL };

enum QuantMode_t { NoQuant, F322F16, F322BF16, DEQF16, VDEQF16, QF322B8_PRE, VQF322B8_PRE, REQ8, VREQ8 };

namespace AscendC {

using TEventID = int8_t;

// The scalar unit computes with no bfloat16.
inline float ToFloat(const bfloat16_t& value) { return ascsim::widen_bfloat(value.bits); }
inline bfloat16_t ToBfloat16(const float& value) {
    bfloat16_t made;
    made.bits = ascsim::narrow_bfloat(value);
    return made;
}

// The line of a call, which no argument of it is taken for.
#define ASCSIM_LINE Line line = Line(__builtin_LINE())

struct Line {
    int number;
    explicit constexpr Line(int at) : number(at) {}
    constexpr operator int() const { return number; }
};

enum class TPosition : uint8_t {
    GM, A1, A2, B1, B2, C1, C2, CO1, CO2, VECIN, VECOUT, VECCALC, LCM = VECCALC, SPM, SHM = SPM, TSCM, C2PIPE2GM
};
using QuePosition = TPosition;

enum class Hardware : uint8_t { GM, UB, L1, L0A, L0B, L0C, BIAS, FIXBUF };

enum class RoundMode : uint8_t {
    CAST_NONE, CAST_RINT, CAST_FLOOR, CAST_CEIL, CAST_ROUND, CAST_TRUNC, CAST_ODD, CAST_HYBRID
};

enum class CMPMODE : uint8_t { LT, GT, EQ, LE, GE, NE };
enum class SELMODE : uint8_t { VSEL_CMPMASK_SPR, VSEL_TENSOR_SCALAR_MODE, VSEL_TENSOR_TENSOR_MODE };
enum class ReduceOrder : uint8_t { ORDER_VALUE_INDEX, ORDER_INDEX_VALUE, ORDER_ONLY_VALUE, ORDER_ONLY_INDEX };
enum class MaskMode : uint8_t { NORMAL, COUNTER };
enum class CacheMode : uint8_t { CACHE_MODE_DISABLE, CACHE_MODE_NORMAL };

enum class HardEvent : uint8_t {
    MTE2_MTE1, MTE1_MTE2, MTE1_M, M_MTE1, MTE2_V, V_MTE2, MTE3_V, V_MTE3, M_V, V_M, V_V, MTE3_MTE1, MTE1_MTE3,
    MTE1_V, MTE2_M, M_MTE2, V_MTE1, M_FIX, FIX_M, MTE3_MTE2, MTE2_MTE3, S_V, V_S, S_MTE2, MTE2_S, S_MTE3, MTE3_S,
    MTE2_FIX, FIX_MTE2, FIX_S, M_S, FIX_MTE3, MTE1_FIX, FIX_MTE1, FIX_FIX
};

constexpr ascsim::Space space_of(TPosition position) {
    switch (position) {
        case TPosition::GM: return ascsim::Space::GM;
        case TPosition::A1: case TPosition::B1: case TPosition::C1: return ascsim::Space::L1;
        case TPosition::A2: return ascsim::Space::L0A;
        case TPosition::B2: return ascsim::Space::L0B;
        case TPosition::C2: return ascsim::Space::BT;
        case TPosition::CO1: case TPosition::CO2: return ascsim::Space::L0C;
        case TPosition::C2PIPE2GM: return ascsim::Space::FB;
        default: return ascsim::Space::UB;
    }
}

constexpr ascsim::Space space_of(Hardware hardware) {
    return static_cast<ascsim::Space>(hardware);  // the two enumerations list the memories in the same order
}

}  // namespace AscendC
