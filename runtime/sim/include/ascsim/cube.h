// The cube core: loads into its operand buffers, products, and the way out.
#pragma once

#include "ascsim/moves.h"

namespace AscendC {

struct LoadData2DParams {
    uint16_t startIndex = 0;
    uint8_t repeatTimes = 1;
    uint16_t srcStride = 0;
    uint8_t sid = 0;
    uint16_t dstGap = 0;
    bool ifTranspose = false;
    uint8_t addrMode = 0;
};

struct MmadParams {
    uint16_t m = 0, n = 0, k = 0;
    bool isBias = false;
    int32_t fmOffset = 0;
    bool enSsparse = false, enWinogradA = false, enWinogradB = false;
    int8_t unitFlag = 0;
    bool kDirectionAlign = false, cmatrixSource = false, cmatrixInitVal = true;
};

enum class CO2Layout : uint8_t { NZ, ROW_MAJOR };

struct FixpipeConfig {
    CO2Layout format;
};

inline constexpr FixpipeConfig CFG_NZ{CO2Layout::NZ};
inline constexpr FixpipeConfig CFG_ROW_MAJOR{CO2Layout::ROW_MAJOR};

struct FixpipeParamsV220 {
    uint16_t nSize = 0, mSize = 0, srcStride = 0;
    uint32_t dstStride = 0;
    bool reluEn = false;
    QuantMode_t quantPre = NoQuant;
    uint64_t deqScalar = 0;
    uint16_t ndNum = 1, srcNdStride = 0, dstNdStride = 0;
    uint8_t unitFlag = 0;
    bool isChannelSplit = false;
};

template <typename T>
void LoadData(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LoadData2DParams& p, int line = __builtin_LINE()) {
    ascsim::Load2D c;
    c.dst = dst.ref(), c.src = src.ref(), c.line = line;
    c.start = p.startIndex, c.repeat = p.repeatTimes, c.src_stride = p.srcStride, c.dst_gap = p.dstGap;
    c.transpose = p.ifTranspose;
    ascsim_load2d(c);
}

template <typename C, typename A, typename B>
void Mmad(const LocalTensor<C>& c, const LocalTensor<A>& a, const LocalTensor<B>& b, const MmadParams& p,
          int line = __builtin_LINE()) {
    ascsim::Mmad m;
    m.c = c.ref(), m.a = a.ref(), m.b = b.ref(), m.line = line;
    m.m = p.m, m.n = p.n, m.k = p.k, m.starts_from_zero = p.cmatrixInitVal, m.unit_flag = p.unitFlag;
    ascsim_mmad(m);
}

template <typename C, typename A, typename B, typename Bias>
void Mmad(const LocalTensor<C>& c, const LocalTensor<A>& a, const LocalTensor<B>& b, const LocalTensor<Bias>& bias,
          const MmadParams& p, int line = __builtin_LINE()) {
    ascsim::Mmad m;
    m.c = c.ref(), m.a = a.ref(), m.b = b.ref(), m.bias = bias.ref(), m.has_bias = true, m.line = line;
    m.m = p.m, m.n = p.n, m.k = p.k, m.starts_from_zero = p.cmatrixInitVal, m.unit_flag = p.unitFlag;
    ascsim_mmad(m);
}

template <typename T, typename U, const FixpipeConfig& config = CFG_ROW_MAJOR>
void Fixpipe(const GlobalTensor<T>& dst, const LocalTensor<U>& src, const FixpipeParamsV220& p, int line = __builtin_LINE()) {
    ascsim::Fixpipe f;
    f.dst = dst.ref(), f.src = src.ref(), f.line = line;
    f.n = p.nSize, f.m = p.mSize, f.src_stride = p.srcStride, f.dst_stride = p.dstStride;
    f.matrices = p.ndNum, f.src_matrix = p.srcNdStride, f.dst_matrix = p.dstNdStride;
    f.relu = p.reluEn, f.row_major = config.format == CO2Layout::ROW_MAJOR, f.quant = p.quantPre, f.scale = p.deqScalar;
    f.unit_flag = p.unitFlag;
    ascsim_fixpipe(f);
}

}  // namespace AscendC
