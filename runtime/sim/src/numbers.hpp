// Elements of tensors as numbers: one way in and one way out for every dtype.
#pragma once

#include <algorithm>
#include <cstring>

#include "ascsim/types.h"
#include "machine.hpp"

namespace ascsim {

inline bool is_float8(DType dtype) { return dtype == DType::F8E4M3 || dtype == DType::F8E5M2; }

// A float of 8 bits, from the parts of its code. E4M3 has no infinity, and one NaN for each sign.
inline double widen_float8(DType dtype, uint8_t code) {
    const int fraction_bits = dtype == DType::F8E4M3 ? 3 : 2, bias = dtype == DType::F8E4M3 ? 7 : 15;
    const int magnitude = code & 0x7F, exponent = magnitude >> fraction_bits, fraction = magnitude & ((1 << fraction_bits) - 1);
    const double sign = (code & 0x80) != 0 ? -1.0 : 1.0;
    if (dtype == DType::F8E4M3 ? magnitude == 0x7F : magnitude > 0x7C) return NAN;
    if (dtype == DType::F8E5M2 && magnitude == 0x7C) return sign * HUGE_VAL;
    const int hidden = exponent != 0 ? 1 << fraction_bits : 0;
    return sign * std::ldexp(static_cast<double>(hidden + fraction), std::max(exponent, 1) - bias - fraction_bits);
}

inline double load_float(DType dtype, const uint8_t* at) {
    if (is_float8(dtype)) return widen_float8(dtype, *at);
    if (dtype == DType::F32) {
        float value;
        std::memcpy(&value, at, 4);
        return value;
    }
    uint16_t bits;
    std::memcpy(&bits, at, 2);
    return dtype == DType::F16 ? widen_half(bits) : widen_bfloat(bits);
}

inline void store_float(DType dtype, uint8_t* at, double value) {
    if (is_float8(dtype)) throw Fault("the simulated device has no instruction that writes float8");
    if (dtype == DType::F32) {
        const auto narrow = static_cast<float>(value);
        std::memcpy(at, &narrow, 4);
        return;
    }
    const uint16_t bits = dtype == DType::F16 ? narrow_half(value) : narrow_bfloat(static_cast<float>(value));
    std::memcpy(at, &bits, 2);
}

inline int64_t load_integer(DType dtype, const uint8_t* at) {
    uint64_t bits = 0;
    const uint64_t size = size_of(dtype);
    std::memcpy(&bits, at, size);
    const bool is_signed = dtype == DType::I8 || dtype == DType::I16 || dtype == DType::I32 || dtype == DType::I64;
    const unsigned unused = static_cast<unsigned>(64 - 8 * size);
    return is_signed ? static_cast<int64_t>(bits << unused) >> unused : static_cast<int64_t>(bits);
}

inline void store_integer(DType dtype, uint8_t* at, int64_t value) { std::memcpy(at, &value, size_of(dtype)); }

// Nearest representable integer of a dtype: casts saturate.
inline int64_t saturate(DType dtype, double value) {
    if (value != value) return 0;
    const unsigned bits = static_cast<unsigned>(8 * size_of(dtype));
    const bool is_signed = dtype == DType::I8 || dtype == DType::I16 || dtype == DType::I32 || dtype == DType::I64;
    const double top = std::ldexp(1.0, static_cast<int>(bits) - (is_signed ? 1 : 0));
    const double bottom = is_signed ? -top : 0.0;
    if (value <= bottom) return is_signed && bits == 64 ? INT64_MIN : static_cast<int64_t>(bottom);
    if (value >= top) return bits == 64 ? INT64_MAX : static_cast<int64_t>(top) - 1;
    return static_cast<int64_t>(value);
}

inline double rounded(double value, AscendC::RoundMode mode) {
    using R = AscendC::RoundMode;
    switch (mode) {
        case R::CAST_FLOOR: return std::floor(value);
        case R::CAST_CEIL: return std::ceil(value);
        case R::CAST_ROUND: return std::round(value);
        case R::CAST_TRUNC: return std::trunc(value);
        default: return std::nearbyint(value);
    }
}

// A number as a half by a rounding mode: the nearest one, or, where that lies beyond the number, the one before it.
inline void store_half(uint8_t* at, double value, AscendC::RoundMode mode) {
    using R = AscendC::RoundMode;
    uint16_t bits = narrow_half(value);
    const double nearest = widen_half(bits);
    const bool too_high = nearest > value, too_low = nearest < value, is_negative = value < 0;
    const bool lowers = too_high && (mode == R::CAST_FLOOR || (mode == R::CAST_TRUNC && !is_negative));
    const bool raises = too_low && (mode == R::CAST_CEIL || (mode == R::CAST_TRUNC && is_negative));
    if (lowers || raises) bits = static_cast<uint16_t>(lowers == is_negative ? bits + 1 : bits - 1);
    std::memcpy(at, &bits, 2);
}

}  // namespace ascsim
