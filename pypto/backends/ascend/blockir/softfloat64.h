// float64 in integers of 64 bits, for the scalar unit: the functions that a kernel calls are copied into its text.
// A double is its IEEE 754 code. All functions round to nearest even, and know subnormal numbers.

struct DoubleParts {
    uint64_t sign;
    int32_t exponent;
    uint64_t bits;
};

__aicore__ inline int32_t LeadingZeros(uint64_t bits) {
    int32_t zeros = bits == 0u ? 1 : 0;
    for (int32_t width = 32; width > 0; width /= 2) {
        if ((bits >> (64 - width)) == 0u) {
            zeros += width;
            bits <<= width;
        }
    }
    return zeros;
}

// Bits to the right, with the lowest one set where any that falls out was.
__aicore__ inline uint64_t ShiftSticky(uint64_t bits, int32_t by) {
    if (by <= 0) return bits;
    if (by >= 64) return bits != 0u ? 1u : 0u;
    return (bits >> by) | ((bits << (64 - by)) != 0u ? 1u : 0u);
}

// The double nearest to bits * 2^(exponent - 1085): with bit 62 as the first one, the exponent is that of the code.
__aicore__ inline uint64_t RoundDouble(uint64_t sign, int32_t exponent, uint64_t bits) {
    if (bits == 0u) return sign;
    const int32_t shift = LeadingZeros(bits) - 1;
    bits = shift < 0 ? ShiftSticky(bits, 1) : bits << shift;
    exponent -= shift;
    if (exponent >= 2047) return sign | 0x7ff0000000000000u;
    if (exponent <= 0) {
        bits = ShiftSticky(bits, 1 - exponent);
        exponent = 1;
    }
    const uint64_t rest = bits & 1023u;
    bits >>= 10;
    bits += rest > 512u || (rest == 512u && (bits & 1u) != 0u) ? 1u : 0u;
    return sign | ((static_cast<uint64_t>(exponent - 1) << 52) + bits);
}

__aicore__ inline bool IsNanDouble(uint64_t a) {
    return (a << 1) > 0xffe0000000000000u;
}

__aicore__ inline bool IsInfDouble(uint64_t a) {
    return (a << 1) == 0xffe0000000000000u;
}

// A number with bit 62 as its first one; of zero, no bits at all.
__aicore__ inline DoubleParts SplitDouble(uint64_t a) {
    const int32_t exponent = static_cast<int32_t>((a >> 52) & 2047u);
    DoubleParts parts = {a & 0x8000000000000000u, exponent, (a & 0xfffffffffffffu) << 10};
    if (parts.exponent != 0) {
        parts.bits |= 0x4000000000000000u;
    } else if (parts.bits == 0u) {
        parts.exponent = -4000;
    } else {
        const int32_t shift = LeadingZeros(parts.bits) - 1;
        parts.bits <<= shift;
        parts.exponent = 1 - shift;
    }
    return parts;
}

__aicore__ inline uint64_t AddDouble(uint64_t a, uint64_t b) {
    if (IsNanDouble(a) || IsNanDouble(b)) return 0x7ff8000000000000u;
    if (IsInfDouble(a)) return IsInfDouble(b) && a != b ? 0x7ff8000000000000u : a;
    if (IsInfDouble(b)) return b;
    const bool swapped = (a << 1) < (b << 1);
    const DoubleParts x = SplitDouble(swapped ? b : a);
    const DoubleParts y = SplitDouble(swapped ? a : b);
    const uint64_t less = ShiftSticky(y.bits, x.exponent - y.exponent);
    if (x.sign == y.sign) return RoundDouble(x.sign, x.exponent, x.bits + less);
    return x.bits == less ? 0u : RoundDouble(x.sign, x.exponent, x.bits - less);
}

__aicore__ inline uint64_t SubDouble(uint64_t a, uint64_t b) {
    return AddDouble(a, b ^ 0x8000000000000000u);
}

// The upper half of a product.
__aicore__ inline uint64_t MulHigh(uint64_t a, uint64_t b) {
    const uint64_t low = (a & 0xffffffffu) * (b & 0xffffffffu);
    const uint64_t one = (a >> 32) * (b & 0xffffffffu) + (low >> 32);
    const uint64_t two = (a & 0xffffffffu) * (b >> 32) + (one & 0xffffffffu);
    return (a >> 32) * (b >> 32) + (one >> 32) + (two >> 32);
}

__aicore__ inline uint64_t MulDouble(uint64_t a, uint64_t b) {
    if (IsNanDouble(a) || IsNanDouble(b)) return 0x7ff8000000000000u;
    const DoubleParts x = SplitDouble(a);
    const DoubleParts y = SplitDouble(b);
    const uint64_t sign = x.sign ^ y.sign;
    if (IsInfDouble(a) || IsInfDouble(b)) {
        return x.bits == 0u || y.bits == 0u ? 0x7ff8000000000000u : sign | 0x7ff0000000000000u;
    }
    const uint64_t low = x.bits * (y.bits << 1);
    return RoundDouble(sign, x.exponent + y.exponent - 1022, MulHigh(x.bits, y.bits << 1) | (low != 0u ? 1u : 0u));
}

__aicore__ inline uint64_t DivDouble(uint64_t a, uint64_t b) {
    if (IsNanDouble(a) || IsNanDouble(b)) return 0x7ff8000000000000u;
    const DoubleParts x = SplitDouble(a);
    const DoubleParts y = SplitDouble(b);
    const uint64_t sign = x.sign ^ y.sign;
    if (IsInfDouble(a)) return IsInfDouble(b) ? 0x7ff8000000000000u : sign | 0x7ff0000000000000u;
    if (IsInfDouble(b)) return sign;
    if (y.bits == 0u) return x.bits == 0u ? 0x7ff8000000000000u : sign | 0x7ff0000000000000u;
    uint64_t rest = x.bits;
    uint64_t quotient = 0u;
    for (int32_t bit = 0; bit < 63; ++bit) {
        quotient <<= 1;
        if (rest >= y.bits) {
            rest -= y.bits;
            quotient |= 1u;
        }
        rest <<= 1;
    }
    return RoundDouble(sign, x.exponent - y.exponent + 1023, quotient | (rest != 0u ? 1u : 0u));
}

__aicore__ inline uint64_t SqrtDouble(uint64_t a) {
    const DoubleParts x = SplitDouble(a);
    if (IsNanDouble(a) || (x.sign != 0u && x.bits != 0u)) return 0x7ff8000000000000u;
    if (x.bits == 0u || IsInfDouble(a)) return a;
    const int32_t odd = (x.exponent & 1) == 0 ? 1 : 0;
    uint64_t radicand = x.bits << odd;
    uint64_t rest = 0u;
    uint64_t root = 0u;
    for (int32_t bit = 0; bit < 56; ++bit) {
        rest = (rest << 2) | (radicand >> 62);
        radicand <<= 2;
        const uint64_t trial = (root << 2) | 1u;
        root <<= 1;
        if (rest >= trial) {
            rest -= trial;
            root |= 1u;
        }
    }
    return RoundDouble(0u, (x.exponent - odd + 1023) / 2, (root << 7) | (rest != 0u ? 1u : 0u));
}

// The double nearest to 128 bits, of which bit 126 has the exponent.
__aicore__ inline uint64_t FromWide(uint64_t sign, int32_t exponent, uint64_t high, uint64_t low) {
    if (high == 0u) return RoundDouble(sign, exponent - 64, low);
    const int32_t shift = LeadingZeros(high) - 1;
    if (shift > 0) {
        high = (high << shift) | (low >> (64 - shift));
        low <<= shift;
        exponent -= shift;
    }
    return RoundDouble(sign, exponent, high | (low != 0u ? 1u : 0u));
}

// a * b + c, rounded once.
__aicore__ inline uint64_t FmaDouble(uint64_t a, uint64_t b, uint64_t c) {
    const DoubleParts x = SplitDouble(a);
    const DoubleParts y = SplitDouble(b);
    const DoubleParts z = SplitDouble(c);
    const bool special = IsNanDouble(a) || IsNanDouble(b) || IsInfDouble(a) || IsInfDouble(b);
    if (special || IsNanDouble(c) || x.bits == 0u || y.bits == 0u) return AddDouble(MulDouble(a, b), c);
    if (IsInfDouble(c)) return c;
    const uint64_t sign = x.sign ^ y.sign;
    const int32_t top = x.exponent + y.exponent - 1022;
    const int32_t exponent = top > z.exponent ? top : z.exponent;
    uint64_t high = MulHigh(x.bits, y.bits << 1);
    uint64_t low = x.bits * (y.bits << 1);
    uint64_t addHigh = z.bits;
    uint64_t addLow = 0u;
    int32_t by = exponent - top;
    if (by > 0) {
        const uint64_t lost = low != 0u ? 1u : 0u;
        low = by >= 64 ? ShiftSticky(high, by - 64) | lost : ShiftSticky(low, by) | (high << (64 - by));
        high = by >= 64 ? 0u : high >> by;
    }
    by = exponent - z.exponent;
    if (by > 0) {
        addLow = by >= 64 ? ShiftSticky(addHigh, by - 64) : addHigh << (64 - by);
        addHigh = by >= 64 ? 0u : addHigh >> by;
    }
    if (sign == z.sign) {
        low += addLow;
        high += addHigh + (low < addLow ? 1u : 0u);
    } else if (high > addHigh || (high == addHigh && low >= addLow)) {
        high -= addHigh + (low < addLow ? 1u : 0u);
        low -= addLow;
    } else {
        high = addHigh - high - (addLow < low ? 1u : 0u);
        low = addLow - low;
        return FromWide(z.sign, exponent, high, low);
    }
    return (high | low) == 0u ? 0u : FromWide(sign, exponent, high, low);
}

// The remainder of a division towards zero, which is exact.
__aicore__ inline uint64_t RemDouble(uint64_t a, uint64_t b) {
    const DoubleParts x = SplitDouble(a);
    const DoubleParts y = SplitDouble(b);
    if (IsNanDouble(a) || IsNanDouble(b) || IsInfDouble(a) || y.bits == 0u) return 0x7ff8000000000000u;
    if ((a << 1) < (b << 1)) return a;
    uint64_t rest = x.bits;
    for (int32_t exponent = x.exponent; exponent > y.exponent; --exponent) {
        rest = (rest >= y.bits ? rest - y.bits : rest) << 1;
    }
    return RoundDouble(x.sign, y.exponent, rest >= y.bits ? rest - y.bits : rest);
}

__aicore__ inline int64_t OrderOfDouble(uint64_t a) {
    const int64_t size = static_cast<int64_t>(a & 0x7fffffffffffffffu);
    return (a >> 63) != 0u ? -size : size;
}

__aicore__ inline bool LessDouble(uint64_t a, uint64_t b) {
    return !IsNanDouble(a) && !IsNanDouble(b) && OrderOfDouble(a) < OrderOfDouble(b);
}

__aicore__ inline bool LessEqualDouble(uint64_t a, uint64_t b) {
    return !IsNanDouble(a) && !IsNanDouble(b) && OrderOfDouble(a) <= OrderOfDouble(b);
}

__aicore__ inline bool EqualDouble(uint64_t a, uint64_t b) {
    return !IsNanDouble(a) && !IsNanDouble(b) && OrderOfDouble(a) == OrderOfDouble(b);
}

// An integral number near a: 0 towards zero, 1 below, 2 above, 3 the nearest one, of two the even one.
__aicore__ inline uint64_t IntegralDouble(uint64_t a, int32_t mode) {
    const int32_t exponent = static_cast<int32_t>((a >> 52) & 2047u);
    const uint64_t sign = a & 0x8000000000000000u;
    if (exponent >= 1075) return a;
    const bool away = (mode == 1 && sign != 0u) || (mode == 2 && sign == 0u);
    if (exponent < 1023) {
        const bool nearer = mode == 3 && (a & 0x7fffffffffffffffu) > 0x3fe0000000000000u;
        return (away && (a << 1) != 0u) || nearer ? sign | 0x3ff0000000000000u : sign;
    }
    const uint64_t unit = static_cast<uint64_t>(1) << (1075 - exponent);
    const uint64_t rest = a & (unit - 1u);
    const uint64_t whole = a - rest;
    const bool nearer = mode == 3 && (rest > unit / 2u || (rest == unit / 2u && (whole & unit) != 0u));
    return (away && rest != 0u) || nearer ? whole + unit : whole;
}

// a * 2^n, rounded once.
__aicore__ inline uint64_t ScaleDouble(uint64_t a, int64_t n) {
    const DoubleParts x = SplitDouble(a);
    if (x.bits == 0u || (a << 1) >= 0xffe0000000000000u) return a;
    const int64_t by = n < -5000 ? -5000 : n > 5000 ? 5000 : n;
    return RoundDouble(x.sign, x.exponent + static_cast<int32_t>(by), x.bits);
}

__aicore__ inline uint64_t DoubleOfInt(int64_t a) {
    const uint64_t bits = static_cast<uint64_t>(a);
    return a < 0 ? RoundDouble(0x8000000000000000u, 1085, 0u - bits) : RoundDouble(0u, 1085, bits);
}

__aicore__ inline uint64_t DoubleOfUint(uint64_t a) {
    return RoundDouble(0u, 1085, a);
}

// Towards zero, and the nearest number that the type has; of NaN 0.
__aicore__ inline int64_t IntOfDouble(uint64_t a) {
    const int32_t exponent = static_cast<int32_t>((a >> 52) & 2047u);
    if (IsNanDouble(a) || exponent < 1023) return 0;
    const bool negative = (a >> 63) != 0u;
    if (exponent >= 1086) return negative ? -0x7fffffffffffffff - 1 : 0x7fffffffffffffff;
    const uint64_t bits = (a & 0xfffffffffffffu) | 0x10000000000000u;
    const uint64_t whole = exponent > 1075 ? bits << (exponent - 1075) : bits >> (1075 - exponent);
    const int64_t size = static_cast<int64_t>(whole);
    return negative ? -size : size;
}

__aicore__ inline uint64_t UintOfDouble(uint64_t a) {
    const int32_t exponent = static_cast<int32_t>((a >> 52) & 2047u);
    if (IsNanDouble(a) || exponent < 1023 || (a >> 63) != 0u) return 0u;
    if (exponent >= 1087) return 0xffffffffffffffffu;
    const uint64_t bits = (a & 0xfffffffffffffu) | 0x10000000000000u;
    return exponent > 1075 ? bits << (exponent - 1075) : bits >> (1075 - exponent);
}

union FloatBits {
    float number;
    uint32_t bits;
};

__aicore__ inline uint32_t BitsOfFloat(float a) {
    FloatBits both;
    both.number = a;
    return both.bits;
}

__aicore__ inline float FloatOfBits(uint32_t a) {
    FloatBits both;
    both.bits = a;
    return both.number;
}

__aicore__ inline uint64_t DoubleOfFloat(float a) {
    const uint64_t code = BitsOfFloat(a);
    const uint64_t sign = (code >> 31) << 63;
    const int32_t exponent = static_cast<int32_t>((code >> 23) & 255u);
    const uint64_t bits = code & 0x7fffffu;
    if (exponent == 255) return sign | 0x7ff0000000000000u | (bits << 29) | (bits != 0u ? 0x8000000000000u : 0u);
    return RoundDouble(sign, (exponent == 0 ? 1 : exponent) + 935, exponent == 0 ? bits : bits | 0x800000u);
}

// The nearest float, or, for one that will be rounded once more, the one of two whose last bit is set.
__aicore__ inline float FloatOfDouble(uint64_t a, bool odd) {
    const uint32_t sign = static_cast<uint32_t>(a >> 63) << 31;
    if (IsNanDouble(a)) return FloatOfBits(sign | 0x7fc00000u | static_cast<uint32_t>((a >> 29) & 0x3fffffu));
    if (IsInfDouble(a)) return FloatOfBits(sign | 0x7f800000u);
    const DoubleParts x = SplitDouble(a);
    int32_t exponent = x.exponent - 896;
    if (exponent >= 255) return FloatOfBits(sign | (odd ? 0x7f7fffffu : 0x7f800000u));
    const uint64_t bits = ShiftSticky(x.bits, 1 - exponent);
    exponent = exponent < 1 ? 1 : exponent;
    const uint64_t rest = bits & 0x7fffffffffu;
    uint32_t whole = static_cast<uint32_t>(bits >> 39);
    if (odd) {
        whole |= rest != 0u ? 1u : 0u;
    } else {
        whole += rest > 0x4000000000u || (rest == 0x4000000000u && (whole & 1u) != 0u) ? 1u : 0u;
    }
    return FloatOfBits(sign | ((static_cast<uint32_t>(exponent - 1) << 23) + whole));
}
