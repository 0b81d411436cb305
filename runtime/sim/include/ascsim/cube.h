// The cube core: loads into its operand buffers, products, and the way out.
#pragma once

#include "ascsim/moves.h"

namespace AscendC {

struct LoadData2DParams {
    uint16_t startIndex = 0, dstGap = 0, srcStride = 0;
    bool ifTranspose = false;
    uint8_t repeatTimes = 0, sid = 0, addrMode = 0;
    LoadData2DParams() = default;
    LoadData2DParams(uint16_t start, uint8_t repeat, uint16_t stride, uint8_t id, uint16_t gap, bool turns, uint8_t mode)
        : startIndex(start), dstGap(gap), srcStride(stride), ifTranspose(turns), repeatTimes(repeat), sid(id),
          addrMode(mode) {}
};

struct LoadData2DParamsV2 {
    uint32_t mStartPosition = 0, kStartPosition = 0;
    uint16_t mStep = 0, kStep = 0;
    int32_t srcStride = 0;
    uint16_t dstStride = 0;
    bool ifTranspose = false;
    uint8_t sid = 0;
};

template <typename T>
struct LoadData3DParamsV2 {
    uint8_t padList[4] = {0, 0, 0, 0};
    uint16_t l1H = 0, l1W = 0, channelSize = 0, kExtension = 0, mExtension = 0, kStartPt = 0, mStartPt = 0;
    uint8_t strideW = 1, strideH = 1, filterW = 1, filterH = 1, dilationFilterW = 1, dilationFilterH = 1;
    bool enTranspose = false, enSmallK = false;
    T padValue = T(0);
    bool filterSizeW = false, filterSizeH = false, fMatrixCtrl = false;
};

struct LoadData2dTransposeParams {
    uint16_t startIndex = 0;
    uint8_t repeatTimes = 0;
    uint16_t srcStride = 0, dstGap = 0, dstFracGap = 0;
    uint8_t addrMode = 0;
    LoadData2dTransposeParams() = default;
    LoadData2dTransposeParams(uint16_t start, uint8_t repeat, uint16_t stride, uint16_t gap, uint16_t fractalGap)
        : startIndex(start), repeatTimes(repeat), srcStride(stride), dstGap(gap), dstFracGap(fractalGap) {}
};

template <typename T>
struct InitConstValueParams {
    uint16_t repeatTimes = 0, blockNum = 0, dstGap = 0;
    T initValue = T(0);
    InitConstValueParams() = default;
    InitConstValueParams(uint16_t repeat, uint16_t blocks, uint16_t gap, T value)
        : repeatTimes(repeat), blockNum(blocks), dstGap(gap), initValue(value) {}
};

struct MmadParams {
    uint16_t m = 0, n = 0, k = 0;
    bool isBias = false;
    int32_t fmOffset = 0;
    bool enSsparse = false, enWinogradA = false, enWinogradB = false;
    uint8_t unitFlag = 0;
    bool kDirectionAlign = false, cmatrixSource = false, cmatrixInitVal = true;
    MmadParams() = default;
    MmadParams(uint16_t rows, uint16_t cols, uint16_t depth, uint8_t flag, bool fromBias, bool fromZero)
        : m(rows), n(cols), k(depth), unitFlag(flag), cmatrixSource(fromBias), cmatrixInitVal(fromZero) {}
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
void LoadData(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LoadData2DParams& p, ASCSIM_LINE) {
    ascsim::Load2D c;
    c.dst = dst.ref(), c.src = src.ref(), c.line = line;
    c.start = p.startIndex, c.repeat = p.repeatTimes, c.src_stride = p.srcStride, c.dst_gap = p.dstGap;
    c.transpose = p.ifTranspose;
    ascsim_load2d(c);
}

template <typename T>
void LoadData(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LoadData2DParamsV2& p, ASCSIM_LINE) {
    ascsim::Load2DV2 c;
    c.dst = dst.ref(), c.src = src.ref(), c.line = line;
    c.m_start = p.mStartPosition, c.k_start = p.kStartPosition, c.m_step = p.mStep, c.k_step = p.kStep;
    c.src_stride = p.srcStride, c.dst_stride = p.dstStride, c.transpose = p.ifTranspose;
    ascsim_load2d_v2(c);
}

template <typename T>
void LoadData(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LoadData3DParamsV2<T>& p,
              ASCSIM_LINE) {
    ascsim::Load3D c;
    c.dst = dst.ref(), c.src = src.ref(), c.line = line;
    c.height = p.l1H, c.width = p.l1W, c.channels = p.channelSize, c.k = p.kExtension, c.m = p.mExtension;
    c.k_start = p.kStartPt, c.m_start = p.mStartPt, c.transpose = p.enTranspose;
    c.plain = p.strideW == 1 && p.strideH == 1 && p.filterW == 1 && p.filterH == 1 && !p.filterSizeW && !p.filterSizeH &&
              p.padList[0] == 0 && p.padList[1] == 0 && p.padList[2] == 0 && !p.enSmallK;
    ascsim_load3d(c);
}

template <typename T>
void LoadDataWithTranspose(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LoadData2dTransposeParams& p,
                           ASCSIM_LINE) {
    ascsim::Load2D c;
    c.dst = dst.ref(), c.src = src.ref(), c.line = line;
    c.start = p.startIndex, c.repeat = p.repeatTimes, c.src_stride = p.srcStride, c.dst_gap = p.dstGap;
    c.transpose = true, c.pairs = true, c.fractal_gap = p.dstFracGap;
    ascsim_load2d(c);
}

template <typename T>
void InitConstValue(const LocalTensor<T>& dst, const InitConstValueParams<T>& p, ASCSIM_LINE) {
    ascsim::Fill c;
    c.dst = dst.ref(), c.line = line;
    c.repeat = p.repeatTimes, c.blocks = p.blockNum, c.gap = p.dstGap, c.value = ascsim::number_of(p.initValue);
    ascsim_fill(c);
}

inline void SetMMLayoutTransform(bool rows, ASCSIM_LINE) { ascsim_product_order(rows, line); }

template <typename C, typename A, typename B>
void Mmad(const LocalTensor<C>& c, const LocalTensor<A>& a, const LocalTensor<B>& b, const MmadParams& p,
          ASCSIM_LINE) {
    ascsim::Mmad m;
    m.c = c.ref(), m.a = a.ref(), m.b = b.ref(), m.line = line;
    m.m = p.m, m.n = p.n, m.k = p.k, m.starts_from_zero = p.cmatrixInitVal, m.unit_flag = p.unitFlag;
    m.whole_squares = p.kDirectionAlign, m.adds_bias = p.isBias || p.cmatrixSource;
    ascsim_mmad(m);
}

template <typename T, typename U, const FixpipeConfig& config = CFG_ROW_MAJOR>
void Fixpipe(const GlobalTensor<T>& dst, const LocalTensor<U>& src, const FixpipeParamsV220& p, ASCSIM_LINE) {
    ascsim::Fixpipe f;
    f.dst = dst.ref(), f.src = src.ref(), f.line = line;
    f.n = p.nSize, f.m = p.mSize, f.src_stride = p.srcStride, f.dst_stride = p.dstStride;
    f.matrices = p.ndNum;
    f.relu = p.reluEn, f.row_major = config.format == CO2Layout::ROW_MAJOR && !p.isChannelSplit, f.quant = p.quantPre, f.scale = p.deqScalar;
    f.unit_flag = p.unitFlag;
    ascsim_fixpipe(f);
}

}  // namespace AscendC
