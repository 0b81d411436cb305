// The cube core: fractals of 16 rows by 32 bytes, products in float or int32, and the way out through the fixpipe.

#include <algorithm>

#include "numbers.hpp"

namespace ascsim {

namespace {

constexpr uint64_t kFractal = 512, kSide = 16;
constexpr int64_t kMost = 4095;

uint64_t up(int64_t n, uint64_t unit) { return (static_cast<uint64_t>(n) + unit - 1) / unit; }

void check_aligned(const Core& core, const Ref& ref, Space wanted, const char* role) {
    if (ref.space != wanted) core.fail(std::string(role) + " lies in " + name_of(wanted) + ", not in " + name_of(ref.space));
    const uint64_t alignment = core.arch.alignment[static_cast<int>(wanted)];
    if (ref.addr % alignment != 0) core.fail(std::string(role) + " must begin at a multiple of " + std::to_string(alignment) + " bytes");
}

double element(const Core&, DType dtype, const uint8_t* at) {
    return is_float(dtype) ? load_float(dtype, at) : static_cast<double>(load_integer(dtype, at));
}

// Rows of an operand as plain numbers: `outer` by `k`, from fractals that lie `outer_step` and `k_step` apart.
std::vector<float> operand(Core& core, const Ref& ref, int64_t outer, int64_t k, uint64_t outer_step, uint64_t k_step) {
    const uint64_t size = size_of(ref.dtype), k0 = kBlock / size;
    std::vector<float> rows(static_cast<size_t>(outer) * static_cast<size_t>(k));
    for (uint64_t o = 0; o < static_cast<uint64_t>(outer); ++o)
        for (uint64_t j = 0; j < static_cast<uint64_t>(k); j += k0) {
            const uint64_t at = (o / kSide * outer_step + j / k0 * k_step) * kFractal + o % kSide * kBlock;
            const uint64_t n = std::min(k0, static_cast<uint64_t>(k) - j);
            core.touch_read(ref, at, n * size);
            const uint8_t* from = core.bytes_at(ref, at, n * size);
            for (uint64_t i = 0; i < n; ++i) rows[o * static_cast<size_t>(k) + j + i] = static_cast<float>(element(core, ref.dtype, from + i * size));
        }
    return rows;
}

void check_mmad(const Core& core, const Mmad& m) {
    check_aligned(core, m.a, Space::L0A, "the left operand");
    check_aligned(core, m.b, Space::L0B, "the right operand");
    check_aligned(core, m.c, Space::L0C, "the result");
    for (const int64_t n : {m.m, m.n, m.k})
        if (n < 0 || n > kMost) core.fail("m, n and k are at most 4095, one is " + std::to_string(n));
    if (m.m == 1 && core.arch.number == 2201) core.fail("m = 1 switches to another layout of the left operand: use 16 rows");
    if (m.a.dtype != m.b.dtype) core.fail("both operands have one dtype");
    const bool integers = m.a.dtype == DType::I8;
    if (m.c.dtype != (integers ? DType::I32 : DType::F32)) core.fail("the result is float, and int32_t of int8_t operands");
}

}  // namespace

}  // namespace ascsim

void ascsim_load2d(const ascsim::Load2D& c) {
    using namespace ascsim;
    Core& core = current();
    core.issue(Pipe::MTE1, c.line, "LoadData");
    core.check_unit(Pipe::MTE1, true);
    check_aligned(core, c.src, Space::L1, "the source");
    if (c.dst.space != Space::L0A && c.dst.space != Space::L0B) core.fail("the destination lies in L0A or L0B");
    check_aligned(core, c.dst, c.dst.space, "the destination");
    if (c.transpose && size_of(c.dst.dtype) != 2) core.fail("only fractals of 16-bit elements are transposed; use LoadDataWithTranspose");
    for (int64_t i = 0; i < c.repeat; ++i) {
        const uint64_t from = static_cast<uint64_t>(c.start + i * c.src_stride) * kFractal, to = static_cast<uint64_t>(i * (1 + c.dst_gap)) * kFractal;
        core.touch_read(c.src, from, kFractal);
        core.touch_write(c.dst, to, kFractal);
        const uint8_t* s = core.bytes_at(c.src, from, kFractal);
        uint8_t* d = core.bytes_at(c.dst, to, kFractal);
        if (!c.transpose) {
            std::memcpy(d, s, kFractal);
            continue;
        }
        for (uint64_t x = 0; x < kSide; ++x)
            for (uint64_t y = 0; y < kSide; ++y) std::memcpy(d + 2 * (y * kSide + x), s + 2 * (x * kSide + y), 2);
    }
}

void ascsim_mmad(const ascsim::Mmad& m) {
    using namespace ascsim;
    Core& core = current();
    core.issue(Pipe::M, m.line, "Mmad");
    core.check_unit(Pipe::M, true);
    check_mmad(core, m);
    if (m.m == 0 || m.n == 0 || m.k == 0) return;
    const uint64_t k0 = kBlock / size_of(m.a.dtype), m_blocks = up(m.m, kSide), n_blocks = up(m.n, kSide), k_blocks = up(m.k, k0);
    const auto a = core.arch.loads_fractals_zz ? operand(core, m.a, m.m, m.k, k_blocks, 1) : operand(core, m.a, m.m, m.k, 1, m_blocks);
    const auto b = operand(core, m.b, m.n, m.k, 1, n_blocks);
    const auto k = static_cast<size_t>(m.k);
    for (uint64_t row = 0; row < static_cast<uint64_t>(m.m); ++row)
        for (uint64_t col = 0; col < static_cast<uint64_t>(m.n); col += kSide) {
            const uint64_t lanes = std::min(kSide, static_cast<uint64_t>(m.n) - col);
            const uint64_t at = ((col / kSide * m_blocks + row / kSide) * kSide * kSide + row % kSide * kSide) * 4;
            if (!m.starts_from_zero) core.touch_read(m.c, at, lanes * 4);
            core.touch_write(m.c, at, lanes * 4);
            uint8_t* out = core.bytes_at(m.c, at, lanes * 4);
            for (uint64_t j = 0; j < lanes; ++j) {
                const float* x = &a[row * k];
                const float* y = &b[(col + j) * k];
                if (m.c.dtype == DType::F32) {
                    float sum = m.starts_from_zero ? 0.0f : static_cast<float>(load_float(DType::F32, out + 4 * j));
                    for (size_t i = 0; i < k; ++i) sum += x[i] * y[i];
                    store_float(DType::F32, out + 4 * j, sum);
                } else {
                    int64_t sum = m.starts_from_zero ? 0 : load_integer(DType::I32, out + 4 * j);
                    for (size_t i = 0; i < k; ++i) sum += static_cast<int64_t>(x[i]) * static_cast<int64_t>(y[i]);
                    store_integer(DType::I32, out + 4 * j, sum);
                }
            }
        }
}

void ascsim_fixpipe(const ascsim::Fixpipe& f) {
    using namespace ascsim;
    Core& core = current();
    core.issue(Pipe::FIX, f.line, "Fixpipe");
    core.check_unit(Pipe::FIX, true);
    check_aligned(core, f.src, Space::L0C, "the source");
    if (!f.row_major) core.fail("the simulated device writes rows (CFG_ROW_MAJOR)");
    if (f.n > kMost || f.m > 8192 || f.m < 1 || f.n < 1) core.fail("nSize or mSize is out of its range");
    const uint64_t size = size_of(f.dst.dtype);
    const bool fits = (f.quant == NoQuant && f.src.dtype == f.dst.dtype) || (f.quant == F322F16 && f.dst.dtype == DType::F16 && f.src.dtype == DType::F32) ||
                      (f.quant == F322BF16 && f.dst.dtype == DType::BF16 && f.src.dtype == DType::F32) ||
                      (f.quant == DEQF16 && f.dst.dtype == DType::F16 && f.src.dtype == DType::I32);
    if (!fits) core.fail(std::string("quantPre does not turn ") + name_of(f.src.dtype) + " into " + name_of(f.dst.dtype));
    const auto bits = static_cast<uint32_t>(f.scale);
    float scale;
    std::memcpy(&scale, &bits, 4);
    for (uint64_t row = 0; row < static_cast<uint64_t>(f.m); ++row)
        for (uint64_t col = 0; col < static_cast<uint64_t>(f.n); col += kSide) {
            const uint64_t lanes = std::min(kSide, static_cast<uint64_t>(f.n) - col);
            const uint64_t from = (col / kSide * static_cast<uint64_t>(f.src_stride) * kSide + row * kSide) * 4;
            const uint64_t to = (row * static_cast<uint64_t>(f.dst_stride) + col) * size;
            core.touch_read(f.src, from, lanes * 4);
            core.touch_write(f.dst, to, lanes * size);
            const uint8_t* s = core.bytes_at(f.src, from, lanes * 4);
            uint8_t* d = core.bytes_at(f.dst, to, lanes * size);
            for (uint64_t j = 0; j < lanes; ++j) {
                double value = element(core, f.src.dtype, s + 4 * j);
                if (f.relu) value = std::max(value, 0.0);
                if (f.quant == DEQF16) value *= scale;
                if (is_float(f.dst.dtype)) store_float(f.dst.dtype, d + j * size, value);
                else store_integer(f.dst.dtype, d + j * size, static_cast<int64_t>(value));
            }
        }
}
