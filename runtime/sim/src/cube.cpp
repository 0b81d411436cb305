// The cube core: fractals of 16 rows by 32 bytes, products in float or int32, and the way out through the fixpipe.

#include <algorithm>

#include "numbers.hpp"

namespace ascsim {

namespace {

constexpr uint64_t kFractal = 512, kSide = 16;
constexpr int64_t kMost = 4095;
// Documentation of Mmad, on products that add to each other: with (m / 16) * (n / 16) < 10 they need PipeBarrier<PIPE_M>.
// It names no chip, and vendor's samples for dav-3510 have the barrier, too.
constexpr int64_t kOrderedFractals = 10;

uint64_t up(int64_t n, uint64_t unit) { return (static_cast<uint64_t>(n) + unit - 1) / unit; }

void check_aligned(const Core& core, const Ref& ref, Space wanted, const char* role) {
    if (ref.space != wanted) core.fail(std::string(role) + " lies in " + name_of(wanted) + ", not in " + name_of(ref.space));
    const uint64_t alignment = core.arch.alignment[static_cast<int>(wanted)];
    if (ref.addr % alignment != 0) core.fail(std::string(role) + " must begin at a multiple of " + std::to_string(alignment) + " bytes");
}

double element(const Core&, DType dtype, const uint8_t* at) {
    return is_float(dtype) ? load_float(dtype, at) : static_cast<double>(load_integer(dtype, at));
}

// Rows of an operand as plain numbers, and whether all of a row was written.
struct Operand {
    std::vector<float> rows;
    std::vector<bool> whole;
};

// `outer` rows by `k`, from fractals that lie `outer_step` and `k_step` apart.
Operand operand(Core& core, const Ref& ref, int64_t outer, int64_t k, uint64_t outer_step, uint64_t k_step) {
    const uint64_t size = size_of(ref.dtype), k0 = kBlock / size;
    std::vector<float> rows(static_cast<size_t>(outer) * static_cast<size_t>(k));
    std::vector<bool> whole(static_cast<size_t>(outer), true);
    for (uint64_t o = 0; o < static_cast<uint64_t>(outer); ++o)
        for (uint64_t j = 0; j < static_cast<uint64_t>(k); j += k0) {
            const uint64_t at = (o / kSide * outer_step + j / k0 * k_step) * kFractal + o % kSide * kBlock;
            const uint64_t n = std::min(k0, static_cast<uint64_t>(k) - j);
            core.touch_read(ref, at, n * size, false);
            if (std::memchr(core.defined_at(ref, at), 0, n * size) != nullptr) whole[o] = false;
            const uint8_t* from = core.bytes_at(ref, at, n * size);
            for (uint64_t i = 0; i < n; ++i) rows[o * static_cast<size_t>(k) + j + i] = static_cast<float>(element(core, ref.dtype, from + i * size));
        }
    return {std::move(rows), std::move(whole)};
}

// Moves carry what was not written: it is a fault where it would become a result.
void copy_fractal(Core& core, const Ref& dst, const Ref& src, uint64_t to, uint64_t from) {
    core.touch_read(src, from, kFractal, false);
    core.touch_write(dst, to, kFractal);
    std::memcpy(core.bytes_at(dst, to, kFractal), core.bytes_at(src, from, kFractal), kFractal);
    std::memcpy(core.defined_at(dst, to), core.defined_at(src, from), kFractal);
}

// A square of one fractal, or of two: below each other where elements are bytes, side by side where they are words.
// `to` and `from` are where the fractals begin.
using Pair = std::array<uint64_t, 2>;

void turn_square(Core& core, const Ref& dst, const Ref& src, const Pair& to, const Pair& from) {
    const uint64_t size = size_of(dst.dtype), wide = kBlock / size, side = std::max(kSide, wide);
    const auto place = [&](uint64_t row, uint64_t col) {  // which of the two fractals, and where in it
        const uint64_t fractal = size == 1 ? row / kSide : col / wide;
        return std::pair{fractal, row % kSide * kBlock + col % wide * size};
    };
    for (uint64_t i = 0; i < side * side * size / kFractal; ++i) {
        core.touch_read(src, from[i], kFractal, false);
        core.touch_write(dst, to[i], kFractal);
    }
    for (uint64_t row = 0; row < side; ++row)
        for (uint64_t col = 0; col < side; ++col) {
            const auto [a, in_a] = place(row, col);
            const auto [b, in_b] = place(col, row);
            const uint64_t s = from[a] + in_a, d = to[b] + in_b;
            std::memcpy(core.bytes_at(dst, d, size), core.bytes_at(src, s, size), size);
            std::memcpy(core.defined_at(dst, d), core.defined_at(src, s), size);
        }
}

void check_mmad(const Core& core, const Mmad& m) {
    check_aligned(core, m.a, Space::L0A, "the left operand");
    check_aligned(core, m.b, Space::L0B, "the right operand");
    check_aligned(core, m.c, Space::L0C, "the result");
    for (const int64_t n : {m.m, m.n, m.k})
        if (n < 0 || n > kMost) core.fail("m, n and k are at most 4095, one is " + std::to_string(n));
    if (m.whole_squares && !core.arch.loads_fractals_zz) core.fail("kDirectionAlign is always false on this chip");
    if (m.m == 1) core.fail("m = 1 switches to another layout of the left operand: use 16 rows");
    if (m.unit_flag != 0 && m.unit_flag != 2 && m.unit_flag != 3) core.fail("unitFlag is 0, 2 or 3");
    if (m.adds_bias) core.fail("the simulated device adds no bias");
    const bool float8 = is_float8(m.a.dtype) && is_float8(m.b.dtype);
    if (float8 && core.arch.number != 3510) core.fail(std::string("this chip has no products of ") + name_of(m.a.dtype));
    if (m.a.dtype != m.b.dtype && !float8) core.fail("both operands have one dtype, or are two kinds of float8");
    const bool integers = m.a.dtype == DType::I8;
    if (m.c.dtype != (integers ? DType::I32 : DType::F32)) core.fail("the result is float, and int32_t of int8_t operands");
}

void check_load(const Core& core, const Ref& dst, const Ref& src) {
    check_aligned(core, src, Space::L1, "the source");
    if (dst.space != Space::L0A && dst.space != Space::L0B) core.fail("the destination lies in L0A or L0B");
    check_aligned(core, dst, dst.space, "the destination");
}

// What loads of 2201 are not where L0A holds its fractals as L1 does.
void check_old_load(const Core& core, const Load2D& c) {
    if (core.arch.loads_fractals_zz) return;
    if (c.pairs && c.dst.space == Space::L0A) core.fail("on this chip LoadDataWithTranspose goes to L0B only; use LoadData2DParamsV2");
    if (!c.pairs && c.transpose) core.fail("on this chip the simulated device turns fractals by LoadData2DParamsV2");
    if (!c.pairs && c.dst_gap != 0) core.fail("dstGap has no effect on this chip; use LoadData2DParamsV2");
}

}  // namespace

}  // namespace ascsim

void ascsim_load2d(const ascsim::Load2D& c) {
    using namespace ascsim;
    Core& core = current();
    core.issue(Pipe::MTE1, c.line, c.pairs ? "LoadDataWithTranspose" : "LoadData");
    check_load(core, c.dst, c.src);
    check_old_load(core, c);
    const bool two = c.pairs && size_of(c.dst.dtype) != 2;
    if (c.transpose && !c.pairs && size_of(c.dst.dtype) != 2) core.fail("only fractals of 16-bit elements are transposed; use LoadDataWithTranspose");
    for (int64_t i = 0; i < c.repeat; ++i) {
        const uint64_t from = static_cast<uint64_t>(c.start + i * c.src_stride) * kFractal * (two ? 2 : 1);
        const uint64_t to = static_cast<uint64_t>(i * (1 + c.dst_gap)) * kFractal;
        const uint64_t second = to + static_cast<uint64_t>(1 + c.fractal_gap) * kFractal;
        if (c.transpose) turn_square(core, c.dst, c.src, {to, second}, {from, from + kFractal});
        else copy_fractal(core, c.dst, c.src, to, from);
    }
}

// Fractals of a matrix in NZ, `m_step` of them down its columns and `k_step` across, as NZ again or, turned, as NZ of the
// transposed matrix: `dst_stride` is from one column of fractals to the next one there. What is NZ of rows of B is ZN of B.
void ascsim_load2d_v2(const ascsim::Load2DV2& c) {
    using namespace ascsim;
    Core& core = current();
    core.issue(Pipe::MTE1, c.line, "LoadData (2D V2)");
    if (core.arch.loads_fractals_zz) core.fail("LoadData2DParamsV2 is of dav-3510");
    check_load(core, c.dst, c.src);
    if (c.m_step > 255 || c.k_step > 255 || c.src_stride < 0) core.fail("mStep, kStep or srcStride is out of its range");
    const uint64_t size = size_of(c.dst.dtype), down = c.transpose && size == 1 ? 2 : 1, across = c.transpose && size == 4 ? 2 : 1;
    const auto rows = static_cast<uint64_t>(c.m_step), cols = static_cast<uint64_t>(c.k_step);
    if (rows % down != 0) core.fail("turned fractals of bytes go two by two: mStep must be even");
    if (cols % across != 0) core.fail("turned fractals of words go two by two: kStep must be even");
    const auto source = [&](uint64_t i, uint64_t j) {
        return ((static_cast<uint64_t>(c.k_start) + j) * static_cast<uint64_t>(c.src_stride) + static_cast<uint64_t>(c.m_start) + i) * kFractal;
    };
    const auto target = [&](uint64_t i, uint64_t j) { return (j * static_cast<uint64_t>(c.dst_stride) + i) * kFractal; };
    for (uint64_t i = 0; i < rows; i += down)
        for (uint64_t j = 0; j < cols; j += across) {
            const uint64_t a = i / down * across, b = j / across * down;  // where the square goes: column of fractals, row
            const Pair to{target(b, a), target(b + down - 1, a + across - 1)};
            const Pair from{source(i, j), source(i + down - 1, j + across - 1)};
            if (c.transpose) turn_square(core, c.dst, c.src, to, from);
            else copy_fractal(core, c.dst, c.src, target(i, j), from[0]);
        }
}

// Rows are pixels of an image, columns its channels: as a matrix of fractals, those along the columns first.
void ascsim_load3d(const ascsim::Load3D& c) {
    using namespace ascsim;
    Core& core = current();
    core.issue(Pipe::MTE1, c.line, "LoadData (3D)");
    check_load(core, c.dst, c.src);
    if (!c.plain) core.fail("the simulated device has filters of one pixel, without padding");
    const uint64_t size = size_of(c.dst.dtype), c0 = kBlock / size, rows = static_cast<uint64_t>(c.height * c.width);
    if (c.height < 1 || c.height > 32767 || c.width < 1 || c.width > 32767) core.fail("l1H or l1W is out of its range");
    if (c.m % 16 != 0 || c.m_start % 16 != 0) core.fail("mExtension and mStartPt are multiples of 16");
    if (static_cast<uint64_t>(c.k) % c0 != 0 || static_cast<uint64_t>(c.k_start) % c0 != 0) core.fail("kExtension and kStartPt are multiples of a fractal's columns");
    if (c.channels < c.k_start + c.k) core.fail("kExtension goes past channelSize");
    if (c.transpose && size != 2) core.fail("only fractals of 16-bit elements are transposed; use LoadDataWithTranspose");
    if (c.dst.space == Space::L0B && !c.transpose) core.fail("into L0B, the simulated device loads with enTranspose");
    if (c.dst.space == Space::L0A && c.transpose) core.fail("into L0A, the simulated device loads without enTranspose");
    const uint64_t across = static_cast<uint64_t>(c.k) / c0, down = static_cast<uint64_t>(c.m) / kSide;
    const bool nz = c.dst.space == Space::L0A && !core.arch.loads_fractals_zz;
    for (uint64_t i = 0; i < down; ++i)
        for (uint64_t j = 0; j < across; ++j) {
            const uint64_t row = static_cast<uint64_t>(c.m_start) + i * kSide, col = static_cast<uint64_t>(c.k_start) / c0 + j;
            if (row + kSide > rows) core.fail("mExtension goes past the image");
            const uint64_t from = (col * rows + row) * kBlock, to = (nz ? j * down + i : i * across + j) * kFractal;
            if (c.transpose) turn_square(core, c.dst, c.src, {to, to}, {from, from});
            else copy_fractal(core, c.dst, c.src, to, from);
        }
}

void ascsim_fill(const ascsim::Fill& c) {
    using namespace ascsim;
    Core& core = current();
    const bool into_l1 = c.dst.space == Space::L1;
    core.issue(into_l1 ? Pipe::MTE2 : Pipe::MTE1, c.line, "InitConstValue");
    if (!into_l1 && c.dst.space != Space::L0A && c.dst.space != Space::L0B) core.fail("the destination lies in L1, L0A or L0B");
    if (!into_l1 && !core.arch.loads_fractals_zz) core.fail("nothing fills L0A or L0B on this chip; fill L1 and load that");
    check_aligned(core, c.dst, c.dst.space, "the destination");
    if (c.repeat > 32767 || c.blocks > 32767 || c.gap > 32767) core.fail("a parameter is out of its range");
    const uint64_t unit = into_l1 ? kBlock : kFractal, size = size_of(c.dst.dtype);
    for (int64_t i = 0; i < c.repeat; ++i) {
        const uint64_t to = static_cast<uint64_t>(i * (c.blocks + c.gap)) * unit, bytes = static_cast<uint64_t>(c.blocks) * unit;
        core.touch_write(c.dst, to, bytes);
        for (uint64_t at = 0; at < bytes; at += size) {
            uint8_t* d = core.bytes_at(c.dst, to + at, size);
            if (is_float(c.dst.dtype)) store_float(c.dst.dtype, d, c.value);
            else store_integer(c.dst.dtype, d, static_cast<int64_t>(c.value));
        }
    }
}

void ascsim_product_order(bool by_rows, int line) {
    using namespace ascsim;
    Core& core = current();
    core.issue(Pipe::S, line, "SetMMLayoutTransform");
    core.check_unit(Pipe::M);
    core.products_by_rows = by_rows;
}

void ascsim_mmad(const ascsim::Mmad& m) {
    using namespace ascsim;
    Core& core = current();
    core.issue(Pipe::M, m.line, "Mmad");
    check_mmad(core, m);
    if (m.m / static_cast<int64_t>(kSide) * (m.n / static_cast<int64_t>(kSide)) < kOrderedFractals) core.small_product();
    if (m.m == 0 || m.n == 0 || m.k == 0) return;
    const uint64_t k0 = kBlock / size_of(m.a.dtype), m_blocks = up(m.m, kSide), n_blocks = up(m.n, kSide);
    const uint64_t k_blocks = m.whole_squares && k0 < kSide ? up(m.k, kSide) * kSide / k0 : up(m.k, k0);
    const auto a = core.arch.loads_fractals_zz ? operand(core, m.a, m.m, m.k, k_blocks, 1) : operand(core, m.a, m.m, m.k, 1, m_blocks);
    const auto b = operand(core, m.b, m.n, m.k, 1, n_blocks);
    const auto k = static_cast<size_t>(m.k);
    for (uint64_t row = 0; row < static_cast<uint64_t>(m.m); ++row)
        for (uint64_t col = 0; col < static_cast<uint64_t>(m.n); col += kSide) {
            const uint64_t lanes = std::min(kSide, static_cast<uint64_t>(m.n) - col);
            const uint64_t at = ((col / kSide * m_blocks + row / kSide) * kSide * kSide + row % kSide * kSide) * 4;
            core.unit_flag(m.c, at, m.unit_flag);
            if (!m.starts_from_zero) core.touch_read(m.c, at, lanes * 4, false);
            const std::vector<uint8_t> before(core.defined_at(m.c, at), core.defined_at(m.c, at) + lanes * 4);
            core.touch_write(m.c, at, lanes * 4);
            uint8_t* out = core.bytes_at(m.c, at, lanes * 4);
            for (uint64_t j = 0; j < lanes; ++j) {
                const float* x = &a.rows[row * k];
                const float* y = &b.rows[(col + j) * k];
                if (!a.whole[row] || !b.whole[col + j] || (!m.starts_from_zero && before[4 * j] == 0)) {
                    std::memset(core.defined_at(m.c, at + 4 * j), 0, 4);
                    continue;
                }
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
    check_aligned(core, f.src, Space::L0C, "the source");
    if (!f.row_major) core.fail("the simulated device writes rows (CFG_ROW_MAJOR)");
    if (f.matrices != 1) core.fail("the simulated device writes one matrix (ndNum = 1)");
    if (f.unit_flag != 0 && f.unit_flag != 2 && f.unit_flag != 3) core.fail("unitFlag is 0, 2 or 3");
    if (core.atomic != 0) core.fail("the simulated device adds nothing up on the way out of L0C: SetAtomicNone is missing");
    if (f.n > kMost || f.m > 8192 || f.m < 1 || f.n < 1) core.fail("nSize or mSize is out of its range");
    const uint64_t size = size_of(f.dst.dtype);
    const bool fits = (f.quant == NoQuant && f.src.dtype == f.dst.dtype) || (f.quant == F322F16 && f.dst.dtype == DType::F16 && f.src.dtype == DType::F32) ||
                      (f.quant == F322BF16 && f.dst.dtype == DType::BF16 && f.src.dtype == DType::F32) ||
                      (f.quant == DEQF16 && f.dst.dtype == DType::F16 && f.src.dtype == DType::I32);
    if (!fits) core.fail(std::string("quantPre does not turn ") + name_of(f.src.dtype) + " into " + name_of(f.dst.dtype));
    const auto bits = static_cast<uint32_t>(f.scale);
    float scale;
    std::memcpy(&scale, &bits, 4);
    core.moves_rows(f.dst, f.m, static_cast<uint64_t>(f.n) * size, static_cast<uint64_t>(f.dst_stride) * size);
    for (uint64_t row = 0; row < static_cast<uint64_t>(f.m); ++row)
        for (uint64_t col = 0; col < static_cast<uint64_t>(f.n); col += kSide) {
            const uint64_t lanes = std::min(kSide, static_cast<uint64_t>(f.n) - col);
            const uint64_t from = (col / kSide * static_cast<uint64_t>(f.src_stride) * kSide + row * kSide) * 4;
            const uint64_t to = (row * static_cast<uint64_t>(f.dst_stride) + col) * size;
            core.unit_flag(f.src, from, f.unit_flag);
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
