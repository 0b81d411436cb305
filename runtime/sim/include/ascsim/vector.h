// Vector instructions of the basic API, in their forms with a count and with mask, repeat and strides.
#pragma once

#include "ascsim/tensor.h"

namespace AscendC {

struct BinaryRepeatParams {
    uint8_t dstBlkStride = 1, src0BlkStride = 1, src1BlkStride = 1, dstRepStride = 8, src0RepStride = 8, src1RepStride = 8;
    BinaryRepeatParams() = default;
    BinaryRepeatParams(uint8_t dstBlk, uint8_t src0Blk, uint8_t src1Blk, uint8_t dstRep, uint8_t src0Rep, uint8_t src1Rep)
        : dstBlkStride(dstBlk), src0BlkStride(src0Blk), src1BlkStride(src1Blk), dstRepStride(dstRep),
          src0RepStride(src0Rep), src1RepStride(src1Rep) {}
};

struct UnaryRepeatParams {
    uint16_t dstBlkStride = 1, srcBlkStride = 1;
    uint8_t dstRepStride = 8, srcRepStride = 8;
    UnaryRepeatParams() = default;
    UnaryRepeatParams(uint16_t dstBlk, uint16_t srcBlk, uint8_t dstRep, uint8_t srcRep)
        : dstBlkStride(dstBlk), srcBlkStride(srcBlk), dstRepStride(dstRep), srcRepStride(srcRep) {}
};

struct BrcbRepeatParams {
    uint16_t dstBlkStride = 1, dstRepStride = 8;
    BrcbRepeatParams() = default;
    BrcbRepeatParams(uint16_t blk, uint16_t rep) : dstBlkStride(blk), dstRepStride(rep) {}
};

struct CopyRepeatParams {
    uint16_t dstStride = 0, srcStride = 0, dstRepeatSize = 8, srcRepeatSize = 8;
    CopyRepeatParams() = default;
    CopyRepeatParams(uint16_t dst, uint16_t src, uint16_t dstRepeat, uint16_t srcRepeat)
        : dstStride(dst), srcStride(src), dstRepeatSize(dstRepeat), srcRepeatSize(srcRepeat) {}
};

struct GatherMaskParams {
    uint8_t src0BlockStride = 1;
    uint16_t repeatTimes = 0, src0RepeatStride = 8;
    uint8_t src1RepeatStride = 8;
    GatherMaskParams() = default;
    GatherMaskParams(uint8_t block, uint16_t repeat, uint16_t stride, uint8_t patternStride)
        : src0BlockStride(block), repeatTimes(repeat), src0RepeatStride(stride), src1RepeatStride(patternStride) {}
};

struct MrgSort4Info {
    MrgSort4Info() {}
    uint16_t elementLengths[4] = {0, 0, 0, 0};
    bool ifExhaustedSuspension = false;
    uint16_t validBit = 0;
    uint8_t repeatTimes = 1;
};

template <typename T>
struct MrgSortSrcList {
    LocalTensor<T> src1, src2, src3, src4;
    MrgSortSrcList() = default;
    MrgSortSrcList(const LocalTensor<T>& first, const LocalTensor<T>& second, const LocalTensor<T>& third, const LocalTensor<T>& fourth)
        : src1(first), src2(second), src3(third), src4(fourth) {}
};

namespace sim {

using ascsim::Op;
using ascsim::Vector;
using ascsim::Walk;

template <typename T>
Vector with_count(Op op, const LocalTensor<T>& dst, int64_t count, int line) {
    Vector v;
    v.op = op, v.dst = dst.ref(), v.count = count, v.line = line;
    return v;
}

// The number of lanes that a repeat works on, as a mask; 64-bit halves: low lanes first.
inline void set_mask(Vector& v, uint64_t lanes) {
    if (lanes == 0 || lanes > 128) ascsim_fail("the mask must be between 1 and the lanes of a repeat", v.line);
    v.mask[0] = lanes >= 64 ? ~uint64_t{0} : (uint64_t{1} << lanes) - 1;
    v.mask[1] = lanes <= 64 ? 0 : lanes == 128 ? ~uint64_t{0} : (uint64_t{1} << (lanes - 64)) - 1;
}

inline void set_mask(Vector& v, const uint64_t mask[2]) { v.mask[0] = mask[0], v.mask[1] = mask[1]; }

template <typename T, typename Mask>
Vector with_repeat(Op op, const LocalTensor<T>& dst, Mask mask, uint8_t repeat, int line) {
    Vector v;
    v.op = op, v.dst = dst.ref(), v.repeat = repeat, v.line = line;
    set_mask(v, mask);
    return v;
}

template <typename T>
void set_scalar(Vector& v, T scalar) {
    v.scalar = ascsim::number_of(scalar);
    if constexpr (std::is_integral_v<T>) v.integer = static_cast<int64_t>(scalar);
    else std::memcpy(&v.integer, &scalar, sizeof scalar);
}

inline void strides(Vector& v, const BinaryRepeatParams& p) {
    v.dst_walk = {p.dstBlkStride, p.dstRepStride}, v.a_walk = {p.src0BlkStride, p.src0RepStride};
    v.b_walk = {p.src1BlkStride, p.src1RepStride};
}

inline void strides(Vector& v, const UnaryRepeatParams& p) {
    v.dst_walk = {p.dstBlkStride, p.dstRepStride}, v.a_walk = {p.srcBlkStride, p.srcRepStride};
}

}  // namespace sim

#define ASCSIM_BINARY(NAME)                                                                                            \
    template <typename T>                                                                                              \
    void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, int32_t count,        \
              ASCSIM_LINE) {                                                                                           \
        auto v = sim::with_count(sim::Op::NAME, dst, count, line);                                                     \
        v.a = src0.ref(), v.b = src1.ref();                                                                            \
        ascsim_vector(v);                                                                                              \
    }                                                                                                                  \
    template <typename T, typename Mask>                                                                               \
    void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, Mask mask,            \
              uint8_t repeatTime, const BinaryRepeatParams& params, ASCSIM_LINE) {                                     \
        auto v = sim::with_repeat(sim::Op::NAME, dst, mask, repeatTime, line);                                         \
        v.a = src0.ref(), v.b = src1.ref();                                                                            \
        sim::strides(v, params);                                                                                       \
        ascsim_vector(v);                                                                                              \
    }
ASCSIM_BINARY(Add)
ASCSIM_BINARY(Sub)
ASCSIM_BINARY(Mul)
ASCSIM_BINARY(Div)
ASCSIM_BINARY(Max)
ASCSIM_BINARY(Min)
ASCSIM_BINARY(And)
ASCSIM_BINARY(Or)
ASCSIM_BINARY(MulAddDst)
ASCSIM_BINARY(AddRelu)
ASCSIM_BINARY(SubRelu)
#undef ASCSIM_BINARY

#define ASCSIM_SCALAR(NAME)                                                                                            \
    template <typename T>                                                                                              \
    void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalar, int32_t count,                    \
              ASCSIM_LINE) {                                                                                           \
        auto v = sim::with_count(sim::Op::NAME, dst, count, line);                                                     \
        v.a = src.ref();                                                                                               \
        sim::set_scalar(v, scalar);                                                                                    \
        ascsim_vector(v);                                                                                              \
    }                                                                                                                  \
    template <typename T, typename Mask>                                                                               \
    void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalar, Mask mask, uint8_t repeatTime,    \
              const UnaryRepeatParams& params, ASCSIM_LINE) {                                                          \
        auto v = sim::with_repeat(sim::Op::NAME, dst, mask, repeatTime, line);                                         \
        v.a = src.ref();                                                                                               \
        sim::set_scalar(v, scalar);                                                                                    \
        sim::strides(v, params);                                                                                       \
        ascsim_vector(v);                                                                                              \
    }
ASCSIM_SCALAR(Adds)
ASCSIM_SCALAR(Muls)
ASCSIM_SCALAR(Maxs)
ASCSIM_SCALAR(Mins)
ASCSIM_SCALAR(LeakyRelu)
ASCSIM_SCALAR(Axpy)
ASCSIM_SCALAR(ShiftLeft)
ASCSIM_SCALAR(ShiftRight)
#undef ASCSIM_SCALAR

#define ASCSIM_UNARY(NAME)                                                                                             \
    template <typename T>                                                                                              \
    void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, int32_t count, ASCSIM_LINE) {                      \
        auto v = sim::with_count(sim::Op::NAME, dst, count, line);                                                     \
        v.a = src.ref();                                                                                               \
        ascsim_vector(v);                                                                                              \
    }                                                                                                                  \
    template <typename T, typename Mask>                                                                               \
    void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, Mask mask, uint8_t repeatTime,                     \
              const UnaryRepeatParams& params, ASCSIM_LINE) {                                                          \
        auto v = sim::with_repeat(sim::Op::NAME, dst, mask, repeatTime, line);                                         \
        v.a = src.ref();                                                                                               \
        sim::strides(v, params);                                                                                       \
        ascsim_vector(v);                                                                                              \
    }
ASCSIM_UNARY(Exp)
ASCSIM_UNARY(Ln)
ASCSIM_UNARY(Sqrt)
ASCSIM_UNARY(Rsqrt)
ASCSIM_UNARY(Reciprocal)
ASCSIM_UNARY(Abs)
ASCSIM_UNARY(Relu)
ASCSIM_UNARY(Not)
#undef ASCSIM_UNARY

template <typename T, typename U>
void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& mode, uint32_t count,
          ASCSIM_LINE) {
    auto v = sim::with_count(sim::Op::Cast, dst, count, line);
    v.a = src.ref(), v.mode = static_cast<int>(mode);
    ascsim_vector(v);
}

template <typename T, typename U, typename Mask>
void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& mode, Mask mask, uint8_t repeatTime,
          const UnaryRepeatParams& params, ASCSIM_LINE) {
    auto v = sim::with_repeat(sim::Op::Cast, dst, mask, repeatTime, line);
    v.a = src.ref(), v.mode = static_cast<int>(mode);
    sim::strides(v, params);
    ascsim_vector(v);
}

template <typename T, typename U>
void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE mode,
             uint32_t count, ASCSIM_LINE) {
    static_assert(sizeof(U) == 1, "a comparison gives a bit for each element, in bytes");
    auto v = sim::with_count(sim::Op::Compare, dst, count, line);
    v.a = src0.ref(), v.b = src1.ref(), v.mode = static_cast<int>(mode);
    ascsim_vector(v);
}

template <typename T, typename U>
void CompareScalar(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T& scalar, CMPMODE mode, uint32_t count,
                   ASCSIM_LINE) {
    static_assert(sizeof(U) == 1, "a comparison gives a bit for each element, in bytes");
    auto v = sim::with_count(sim::Op::Compares, dst, count, line);
    v.a = src0.ref(), v.mode = static_cast<int>(mode);
    sim::set_scalar(v, scalar);
    ascsim_vector(v);
}

template <typename T, typename U>
void Compares(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T& scalar, CMPMODE mode, uint32_t count,
              ASCSIM_LINE) {
    CompareScalar(dst, src0, scalar, mode, count, line);
}

template <typename T, typename U>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& mask, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
            SELMODE mode, uint32_t count, ASCSIM_LINE) {
    auto v = sim::with_count(sim::Op::Select, dst, count, line);
    v.a = src0.ref(), v.b = src1.ref(), v.mode = static_cast<int>(mode);
    v.integer = static_cast<int64_t>(mask.GetPhyAddr());
    v.repeat = static_cast<int64_t>(mask.ref().bytes);
    ascsim_vector(v);
}

template <typename T, typename U>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& mask, const LocalTensor<T>& src0, T scalar, SELMODE mode,
            uint32_t count, ASCSIM_LINE) {
    auto v = sim::with_count(sim::Op::Selects, dst, count, line);
    v.a = src0.ref(), v.mode = static_cast<int>(mode);
    v.integer = static_cast<int64_t>(mask.GetPhyAddr());
    v.repeat = static_cast<int64_t>(mask.ref().bytes);
    v.scalar = ascsim::number_of(scalar);
    ascsim_vector(v);
}

template <typename T>
void Duplicate(const LocalTensor<T>& dst, const T& scalar, int32_t count, ASCSIM_LINE) {
    auto v = sim::with_count(sim::Op::Duplicate, dst, count, line);
    sim::set_scalar(v, scalar);
    ascsim_vector(v);
}

template <typename T, typename Mask>
void Duplicate(const LocalTensor<T>& dst, const T& scalar, Mask mask, uint8_t repeatTime, uint16_t dstBlockStride,
               uint8_t dstRepeatStride, ASCSIM_LINE) {
    auto v = sim::with_repeat(sim::Op::Duplicate, dst, mask, repeatTime, line);
    sim::set_scalar(v, scalar);
    v.dst_walk = {dstBlockStride, dstRepeatStride};
    ascsim_vector(v);
}

template <typename T>
void CreateVecIndex(const LocalTensor<T>& dst, const T& first, uint32_t count, ASCSIM_LINE) {
    auto v = sim::with_count(sim::Op::VecIndex, dst, count, line);
    sim::set_scalar(v, first);
    ascsim_vector(v);
}

template <typename T>
void Brcb(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint8_t repeatTime, const BrcbRepeatParams& params,
          ASCSIM_LINE) {
    auto v = sim::with_repeat(sim::Op::Brcb, dst, uint64_t{64}, repeatTime, line);
    v.a = src.ref();
    v.dst_walk = {params.dstBlkStride, params.dstRepStride};
    ascsim_vector(v);
}

template <typename T, typename Mask>
void Copy(const LocalTensor<T>& dst, const LocalTensor<T>& src, Mask mask, uint8_t repeatTime,
          const CopyRepeatParams& params, ASCSIM_LINE) {
    auto v = sim::with_repeat(sim::Op::Copy, dst, mask, repeatTime, line);
    v.a = src.ref();
    v.dst_walk = {params.dstStride, params.dstRepeatSize}, v.a_walk = {params.srcStride, params.srcRepeatSize};
    ascsim_vector(v);
}

#define ASCSIM_REDUCE(NAME, OP)                                                                                        \
    template <typename T, typename Mask>                                                                               \
    void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, Mask mask, int32_t repeatTime, int32_t dstRepStride,\
              int32_t srcBlkStride, int32_t srcRepStride, ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX,          \
              ASCSIM_LINE) {                                                                                           \
        auto v = sim::with_repeat(sim::Op::OP, dst, mask, 0, line);                                                    \
        v.repeat = repeatTime, v.a = src.ref(), v.mode = static_cast<int>(order);                                      \
        v.dst_walk = {1, dstRepStride}, v.a_walk = {srcBlkStride, srcRepStride};                                       \
        ascsim_vector(v);                                                                                              \
    }
ASCSIM_REDUCE(WholeReduceMax, WholeMax)
ASCSIM_REDUCE(WholeReduceMin, WholeMin)
#undef ASCSIM_REDUCE

#define ASCSIM_REDUCE(NAME, OP, REPEAT_FIRST)                                                                          \
    template <typename T, typename Mask>                                                                               \
    void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, Mask first, int32_t second, int32_t dstRepStride,  \
              int32_t srcBlkStride, int32_t srcRepStride, ASCSIM_LINE) {                                               \
        auto v = sim::with_repeat(sim::Op::OP, dst, uint64_t{1}, 0, line);                                             \
        if constexpr (REPEAT_FIRST) sim::set_mask(v, static_cast<uint64_t>(second)), v.repeat = static_cast<int64_t>(first);\
        else sim::set_mask(v, first), v.repeat = second;                                                               \
        v.a = src.ref();                                                                                               \
        v.dst_walk = {1, dstRepStride}, v.a_walk = {srcBlkStride, srcRepStride};                                       \
        ascsim_vector(v);                                                                                              \
    }
ASCSIM_REDUCE(WholeReduceSum, WholeSum, false)
ASCSIM_REDUCE(PairReduceSum, PairSum, true)
ASCSIM_REDUCE(BlockReduceSum, BlockSum, true)
ASCSIM_REDUCE(BlockReduceMax, BlockMax, true)
ASCSIM_REDUCE(BlockReduceMin, BlockMin, true)
#undef ASCSIM_REDUCE

template <typename T>
void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& offsets, uint32_t base,
            uint32_t count, ASCSIM_LINE) {
    auto v = sim::with_count(sim::Op::Gather, dst, count, line);
    v.a = src.ref(), v.b = offsets.ref(), v.integer = base;
    ascsim_vector(v);
}

template <typename T, typename U>
void GatherMask(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<U>& pattern, bool reduceMode,
                uint32_t mask, const GatherMaskParams& params, uint64_t& kept, ASCSIM_LINE) {
    auto v = sim::with_repeat(sim::Op::GatherMask, dst, uint64_t{1}, 0, line);
    v.a = src.ref(), v.b = pattern.ref(), v.mode = reduceMode ? 1 : 0, v.count = mask;
    v.repeat = params.repeatTimes;
    v.a_walk = {params.src0BlockStride, params.src0RepeatStride}, v.b_walk = {1, params.src1RepeatStride};
    v.integer = reinterpret_cast<int64_t>(&kept);
    ascsim_vector(v);
}

// A pattern that every repeat has: 1 takes elements of even numbers, 2 those of odd ones, 3 to 6 one of four, 7 all.
template <typename T>
void GatherMask(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint8_t pattern, bool reduceMode, uint32_t mask,
                const GatherMaskParams& params, uint64_t& kept, ASCSIM_LINE) {
    auto v = sim::with_repeat(sim::Op::GatherMask, dst, uint64_t{1}, 0, line);
    if (pattern < 1 || pattern > 7) ascsim_fail("the pattern of GatherMask must be between 1 and 7", line);
    v.a = src.ref(), v.scalar = pattern, v.mode = reduceMode ? 1 : 0, v.count = mask;
    v.repeat = params.repeatTimes;
    v.a_walk = {params.src0BlockStride, params.src0RepeatStride};
    v.integer = reinterpret_cast<int64_t>(&kept);
    ascsim_vector(v);
}

template <typename T>
void MrgSort(const LocalTensor<T>& dst, const MrgSortSrcList<T>& src, const MrgSort4Info& params, ASCSIM_LINE) {
    ascsim::Merge m;
    m.dst = dst.ref(), m.line = line;
    m.lists[0] = src.src1.ref(), m.lists[1] = src.src2.ref(), m.lists[2] = src.src3.ref(), m.lists[3] = src.src4.ref();
    for (int i = 0; i < 4; ++i) m.lengths[i] = params.elementLengths[i];
    m.valid = params.validBit, m.repeat = params.repeatTimes, m.stops_early = params.ifExhaustedSuspension;
    ascsim_merge(m);
}

template <typename T>
void Sort32(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& index, int32_t repeatTime,
            ASCSIM_LINE) {
    auto v = sim::with_repeat(sim::Op::Sort32, dst, uint64_t{32}, 0, line);
    v.repeat = repeatTime, v.a = src.ref(), v.b = index.ref();
    ascsim_vector(v);
}

template <typename T>
void Transpose(const LocalTensor<T>& dst, const LocalTensor<T>& src, ASCSIM_LINE) {
    auto v = sim::with_count(sim::Op::Transpose, dst, 256, line);
    v.a = src.ref();
    ascsim_vector(v);
}

inline void SetDeqScale(half scale) { ascsim_deq_scale(static_cast<double>(static_cast<float>(scale))); }

}  // namespace AscendC
