// Copies between memories.
#pragma once

#include "ascsim/tensor.h"

namespace AscendC {

struct DataCopyParams {
    uint16_t blockCount = 1, blockLen = 0, srcGap = 0, dstGap = 0;
    DataCopyParams() = default;
    DataCopyParams(uint16_t count, uint16_t length, uint16_t src, uint16_t dst)
        : blockCount(count), blockLen(length), srcGap(src), dstGap(dst) {}
};

#if __NPU_ARCH__ == 3510
using GmStride = int64_t;
using Nd2NzStride = uint64_t;
using Nd2NzSize = uint32_t;
#else
using GmStride = uint32_t;
using Nd2NzStride = uint16_t;
using Nd2NzSize = uint16_t;
#endif

struct DataCopyExtParams {
    uint16_t blockCount = 1;
    uint32_t blockLen = 0;
    GmStride srcStride = 0, dstStride = 0;
    uint32_t rsv = 0;
    DataCopyExtParams() = default;
    DataCopyExtParams(uint16_t count, uint32_t length, GmStride src, GmStride dst, uint32_t reserved)
        : blockCount(count), blockLen(length), srcStride(src), dstStride(dst), rsv(reserved) {}
};

template <typename T>
struct DataCopyPadExtParams {
    bool isPad = false;
    uint8_t leftPadding = 0, rightPadding = 0;
    T paddingValue = T(0);
    DataCopyPadExtParams() = default;
    DataCopyPadExtParams(bool pads, uint8_t left, uint8_t right, T value)
        : isPad(pads), leftPadding(left), rightPadding(right), paddingValue(value) {}
};

struct Nd2NzParams {
    uint16_t ndNum = 0, nValue = 0;
    Nd2NzSize dValue = 0;
    Nd2NzStride srcNdMatrixStride = 0, srcDValue = 0;
    uint16_t dstNzC0Stride = 0, dstNzNStride = 0;
    Nd2NzSize dstNzMatrixStride = 0;
    Nd2NzParams() = default;
    Nd2NzParams(uint16_t matrices, uint16_t rows, Nd2NzSize cols, Nd2NzStride srcMatrix, Nd2NzStride srcPitch,
                uint16_t c0, uint16_t n, Nd2NzSize dstMatrix)
        : ndNum(matrices), nValue(rows), dValue(cols), srcNdMatrixStride(srcMatrix), srcDValue(srcPitch),
          dstNzC0Stride(c0), dstNzNStride(n), dstNzMatrixStride(dstMatrix) {}
};

namespace sim {

inline constexpr int64_t kBlock = 32;

template <typename Dst, typename Src>
void whole(const Dst& dst, const Src& src, uint64_t bytes, int line) {
    if (bytes % kBlock != 0) ascsim_fail("DataCopy: the length must be a multiple of 32 bytes; use DataCopyPad", line);
    ascsim::Copy c;
    c.dst = dst.ref(), c.src = src.ref(), c.block_bytes = static_cast<int64_t>(bytes), c.line = line;
    ascsim_copy(c);
}

template <typename Dst, typename Src>
void blocks(const Dst& dst, const Src& src, const DataCopyParams& p, int line) {
    ascsim::Copy c;
    c.dst = dst.ref(), c.src = src.ref(), c.line = line;
    c.blocks = p.blockCount, c.block_bytes = p.blockLen * kBlock, c.src_gap = p.srcGap * kBlock, c.dst_gap = p.dstGap * kBlock;
    ascsim_copy(c);
}

}  // namespace sim

#define ASCSIM_COPY(DST, SRC)                                                                                          \
    template <typename T>                                                                                              \
    void DataCopy(const DST<T>& dst, const SRC<T>& src, uint32_t count, ASCSIM_LINE) {                                 \
        sim::whole(dst, src, uint64_t{count} * sizeof(T), line);                                                       \
    }                                                                                                                  \
    template <typename T>                                                                                              \
    void DataCopy(const DST<T>& dst, const SRC<T>& src, const DataCopyParams& params, ASCSIM_LINE) {                   \
        sim::blocks(dst, src, params, line);                                                                           \
    }
ASCSIM_COPY(LocalTensor, GlobalTensor)
ASCSIM_COPY(GlobalTensor, LocalTensor)
ASCSIM_COPY(LocalTensor, LocalTensor)
#undef ASCSIM_COPY

template <typename T>
void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyExtParams& params,
                 const DataCopyPadExtParams<T>& pad, ASCSIM_LINE) {
    ascsim::Copy c;
    c.dst = dst.ref(), c.src = src.ref(), c.line = line, c.pads = true;
    c.blocks = params.blockCount, c.block_bytes = params.blockLen;
    c.src_gap = params.srcStride, c.dst_gap = static_cast<int64_t>(params.dstStride) * sim::kBlock;
    c.pads_value = pad.isPad, c.left = pad.leftPadding, c.right = pad.rightPadding;
    c.value = ascsim::number_of(pad.paddingValue);
    ascsim_copy(c);
}

template <typename T>
void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyExtParams& params,
                 ASCSIM_LINE) {
    ascsim::Copy c;
    c.dst = dst.ref(), c.src = src.ref(), c.line = line, c.pads = true;
    c.blocks = params.blockCount, c.block_bytes = params.blockLen;
    c.src_gap = static_cast<int64_t>(params.srcStride) * sim::kBlock, c.dst_gap = params.dstStride;
    ascsim_copy(c);
}

template <typename T>
void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const Nd2NzParams& p, ASCSIM_LINE) {
    ascsim::Nd2Nz c;
    c.dst = dst.ref(), c.src = src.ref(), c.line = line;
    c.matrices = p.ndNum, c.rows = p.nValue, c.cols = p.dValue;
    c.src_matrix = static_cast<int64_t>(p.srcNdMatrixStride), c.src_pitch = static_cast<int64_t>(p.srcDValue);
    c.dst_c0 = p.dstNzC0Stride, c.dst_n = p.dstNzNStride, c.dst_matrix = p.dstNzMatrixStride;
    ascsim_nd2nz(c);
}

template <typename T>
void SetAtomicAdd(ASCSIM_LINE) {
    ascsim_atomic(1, ascsim::dtype_of<T>(), line);
}
template <typename T>
void SetAtomicMax(ASCSIM_LINE) {
    ascsim_atomic(2, ascsim::dtype_of<T>(), line);
}
template <typename T>
void SetAtomicMin(ASCSIM_LINE) {
    ascsim_atomic(3, ascsim::dtype_of<T>(), line);
}
inline void SetAtomicNone(ASCSIM_LINE) { ascsim_atomic(0, ascsim::DType::F32, line); }

}  // namespace AscendC
