// Vector instructions: what they compute, and the rules for their parameters and dtypes.

#include <algorithm>

#include "lanes.hpp"

namespace ascsim {

namespace {

constexpr uint32_t bit(DType d) { return 1u << static_cast<int>(d); }
constexpr uint32_t kHalfFloat = bit(DType::F16) | bit(DType::F32);
constexpr uint32_t kArithmetic = kHalfFloat | bit(DType::I16) | bit(DType::I32);
constexpr uint32_t kShort = bit(DType::I16) | bit(DType::U16);
constexpr uint32_t kShifted = kShort | bit(DType::I32) | bit(DType::U32);
constexpr uint32_t kAny = ~0u;
constexpr uint32_t kWords = kAny & ~(bit(DType::I8) | bit(DType::U8) | bit(DType::I64) | bit(DType::U64));

// The dtypes that each instruction takes on 2201, in the order of `Op`.
constexpr uint32_t kDTypes[] = {
    kArithmetic, kArithmetic, kArithmetic, kHalfFloat, kArithmetic, kArithmetic, kShort, kShort, kHalfFloat,  // … MulAddDst
    kHalfFloat | bit(DType::I16), kHalfFloat | bit(DType::I16),                                              // AddRelu, SubRelu
    kArithmetic, kArithmetic, kArithmetic, kArithmetic, kHalfFloat, kHalfFloat, kShifted, kShifted,          // … ShiftRight
    kHalfFloat, kHalfFloat, kHalfFloat, kHalfFloat, kHalfFloat, kHalfFloat, kHalfFloat | bit(DType::I32),    // … Relu
    kShort,                                                                                                  // Not
    kWords, kArithmetic, kWords, kAny, kAny, kAny, kHalfFloat, kHalfFloat,                                   // … Select
    kHalfFloat, kHalfFloat, kHalfFloat, kHalfFloat, kHalfFloat, kHalfFloat, kHalfFloat,                      // reductions
    kWords, kWords, kWords, kHalfFloat, kHalfFloat, kShort | bit(DType::F16)};

double compute(Op op, double a, double b, double d, double s) {
    switch (op) {
        case Op::Add: return a + b;
        case Op::Sub: return a - b;
        case Op::Mul: return a * b;
        case Op::Div: return a / b;
        case Op::Max: return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b);
        case Op::Min: return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b);
        case Op::MulAddDst: return a * b + d;
        case Op::AddRelu: return std::max(a + b, 0.0);
        case Op::SubRelu: return std::max(a - b, 0.0);
        case Op::Adds: return a + s;
        case Op::Muls: return a * s;
        case Op::Maxs: return std::isnan(a) ? a : std::max(a, s);
        case Op::Mins: return std::isnan(a) ? a : std::min(a, s);
        case Op::LeakyRelu: return a >= 0 ? a : a * s;
        case Op::Axpy: return a * s + d;
        case Op::Exp: return std::exp(a);
        case Op::Ln: return std::log(a);
        case Op::Sqrt: return std::sqrt(a);
        case Op::Rsqrt: return 1.0 / std::sqrt(a);
        case Op::Reciprocal: return 1.0 / a;
        case Op::Abs: return std::fabs(a);
        case Op::Relu: return std::isnan(a) ? a : std::max(a, 0.0);
        case Op::Copy: return a;
        default: return 0.0;
    }
}

int64_t compute(Op op, int64_t a, int64_t b, int64_t s, DType dtype) {
    const auto wrap = [](int64_t x) { return x; };
    switch (op) {
        case Op::Add: return wrap(a + b);
        case Op::Sub: return wrap(a - b);
        case Op::Mul: return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
        case Op::Max: return std::max(a, b);
        case Op::Min: return std::min(a, b);
        case Op::And: return a & b;
        case Op::Or: return a | b;
        case Op::AddRelu: return std::max<int64_t>(a + b, 0);
        case Op::SubRelu: return std::max<int64_t>(a - b, 0);
        case Op::Adds: return a + s;
        case Op::Muls: return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(s));
        case Op::Maxs: return std::max(a, s);
        case Op::Mins: return std::min(a, s);
        case Op::ShiftLeft: return static_cast<int64_t>(static_cast<uint64_t>(a) << s);
        case Op::ShiftRight: return a >> s;  // sign or zeros come in as `load_integer` widened it
        case Op::Relu: return std::max<int64_t>(a, 0);
        case Op::Not: return ~a;
        case Op::Copy: return a;
        default: (void)dtype; return 0;
    }
}

bool compares(int mode, double a, double b) {
    switch (mode) {
        case 0: return a < b;
        case 1: return a > b;
        case 2: return a == b;
        case 3: return a <= b;
        case 4: return a >= b;
        default: return a != b;
    }
}

struct Operands {
    bool a, b, reads_dst;
};

Operands operands_of(Op op) {
    if (op <= Op::SubRelu) return {true, true, op == Op::MulAddDst};
    if (op <= Op::Not) return {true, false, op == Op::Axpy};
    return {op == Op::Copy, false, false};
}

void check_parameters(const Core& core, const Vector& v) {
    if (core.arch.number == 3510 && v.op != Op::GatherMask && (v.count < 0 ? v.repeat : v.count) == 0)
        core.fail("on this chip a count or repeatTime of 0 need not be no operation");
    if (v.op == Op::VecIndex && core.arch.number == 2201 && !core.has_pipe)
        core.fail("on this chip it takes an event of a TPipe, which the kernel has not");
    if (v.count >= 0) return;
    if (v.mask[0] == 0 && v.mask[1] == 0) core.fail("the mask has no lane");
    if (v.repeat < 0 || v.repeat > 255) core.fail("repeatTime must be between 0 and 255, it is " + std::to_string(v.repeat));
    if (v.dst_walk.block == 0) core.fail("dstBlkStride must not be 0");
    const uint64_t lanes = kRepeatBytes / size_of(v.dst.dtype);
    if (v.op != Op::Cast && lanes <= 64 && v.mask[1] != 0)
        core.fail("the mask has more than the " + std::to_string(lanes) + " lanes of a repeat of " + name_of(v.dst.dtype));
    for (const Walk* w : {&v.dst_walk, &v.a_walk, &v.b_walk})
        if (w->repeat < 0 || w->repeat > 65535 || w->block < 0) core.fail("a stride is out of its range");
}

void check_dtypes(const Core& core, const Vector& v) {
    if (!(kDTypes[static_cast<int>(v.op)] & bit(v.dst.dtype)))
        core.fail(std::string("the vector unit has no ") + name_of(v.op) + " for " + name_of(v.dst.dtype));
}

// An operand may be exactly the destination; partly over it, one repeat would read what another one wrote.
void check_overlap(const Core& core, const Vector& v, const Ref& src, const std::vector<std::pair<uint64_t, uint64_t>>& reads,
                   const std::vector<std::pair<uint64_t, uint64_t>>& writes, bool same_walk) {
    if (src.addr == v.dst.addr && same_walk) return;
    for (const auto& [from, bytes] : reads)
        for (const auto& [to, size] : writes)
            if (src.addr + from < v.dst.addr + to + size && v.dst.addr + to < src.addr + from + bytes && src.addr != v.dst.addr)
                core.fail("source and destination overlap partly within one instruction");
}

// Whether a later repeat reads what an earlier one wrote: the hardware may have read it before. Only sums and extremes
// into their second operand are made for that.
void check_repeats(const Core& core, const Vector& v, const Ref& src, const Walk& walk, bool second) {
    if (v.count >= 0 || v.repeat < 2 || src.addr != v.dst.addr) return;
    const bool same_walk = walk.block == v.dst_walk.block && walk.repeat == v.dst_walk.repeat;
    const uint64_t per_block = kBlock / size_of(v.dst.dtype);
    uint64_t lanes = 0;
    for (uint64_t i = 0; i < 128; ++i) lanes = v.mask[i / 64] >> (i % 64) & 1 ? i + 1 : lanes;
    const auto blocks = static_cast<int64_t>((lanes + per_block - 1) / per_block);
    if (same_walk && walk.repeat > (blocks - 1) * walk.block) return;
    const bool carries = second && (walk.repeat == 0 || v.dst_walk.repeat == 0) && v.dst.dtype != DType::I16 &&
                         (v.op == Op::Add || v.op == Op::Sub || v.op == Op::Mul || v.op == Op::Max || v.op == Op::Min);
    if (!carries) core.fail("a repeat reads what the one before it wrote");
}

bool same(const Walk& a, const Walk& b) { return a.block == b.block && a.repeat == b.repeat; }

using Spans = std::vector<std::pair<uint64_t, uint64_t>>;

struct Spread {
    Spans dst, a, b;
};

Spread spread(const Vector& v, uint64_t d_size, uint64_t a_size, uint64_t b_size) {
    Ranges d, a, b;
    for_lanes(v, d_size, a_size, b_size, [&](uint64_t x, uint64_t y, uint64_t z) {
        d.add(x, d_size), a.add(y, a_size), b.add(z, b_size);
    });
    return {d.all(), a.all(), b.all()};
}

void touch(Core& core, const Ref& ref, const Spans& spans, bool writes) {
    for (const auto& [from, bytes] : spans) writes ? core.touch_write(ref, from, bytes) : core.touch_read(ref, from, bytes);
}

void elementwise(Core& core, const Vector& v) {
    const auto [has_a, has_b, reads_dst] = operands_of(v.op);
    const DType dtype = v.dst.dtype;
    const uint64_t size = size_of(dtype), a_size = has_a ? size_of(v.a.dtype) : size;
    if (has_a) check_place(core, v.a);
    if (has_b) check_place(core, v.b);
    if ((v.op == Op::Maxs || v.op == Op::Mins) && is_float(dtype) && std::isnan(v.scalar))
        core.fail("the documentation does not say what a number that is NaN gives: fill a tensor with it for Max or Min");
    const Spread s = spread(v, size, a_size, size);
    if (has_a) touch(core, v.a, s.a, false), check_overlap(core, v, v.a, s.a, s.dst, v.count >= 0 || same(v.a_walk, v.dst_walk));
    if (has_b) touch(core, v.b, s.b, false), check_overlap(core, v, v.b, s.b, s.dst, v.count >= 0 || same(v.b_walk, v.dst_walk));
    if (has_a) check_repeats(core, v, v.a, v.a_walk, false);
    if (has_b) check_repeats(core, v, v.b, v.b_walk, true);
    if (reads_dst) touch(core, v.dst, s.dst, false);
    touch(core, v.dst, s.dst, true);
    uint8_t* d = core.bytes_at(v.dst, 0, 0);
    const uint8_t* a = has_a ? core.bytes_at(v.a, 0, 0) : d;
    const uint8_t* b = has_b ? core.bytes_at(v.b, 0, 0) : d;
    int64_t index = 0;
    for_lanes(v, size, a_size, size, [&](uint64_t x, uint64_t y, uint64_t z) {
        if (v.op == Op::Duplicate) {  // bits, those of a NaN too
            store_integer(dtype, d + x, v.integer);
        } else if (v.op == Op::VecIndex) {
            const int64_t step = index++;
            if (is_float(dtype)) store_float(dtype, d + x, v.scalar + static_cast<double>(step));
            else store_integer(dtype, d + x, v.integer + step);
        } else if (is_float(dtype)) {
            const double right = has_b ? load_float(dtype, b + z) : 0.0, old = reads_dst ? load_float(dtype, d + x) : 0.0;
            store_float(dtype, d + x, compute(v.op, load_float(v.a.dtype, a + y), right, old, v.scalar));
        } else {
            const int64_t right = has_b ? load_integer(dtype, b + z) : 0;
            store_integer(dtype, d + x, compute(v.op, load_integer(dtype, a + y), right, v.integer, dtype));
        }
    });
}

// How one Cast may round from one dtype to another, a bit for each mode; with any other mode the hardware does nothing.
constexpr uint32_t rounds(AscendC::RoundMode mode) { return 1u << static_cast<int>(mode); }
constexpr uint32_t kNone = rounds(AscendC::RoundMode::CAST_NONE), kOdd = rounds(AscendC::RoundMode::CAST_ODD);
constexpr uint32_t kRounds = rounds(AscendC::RoundMode::CAST_RINT) | rounds(AscendC::RoundMode::CAST_FLOOR) |
                             rounds(AscendC::RoundMode::CAST_CEIL) | rounds(AscendC::RoundMode::CAST_ROUND) |
                             rounds(AscendC::RoundMode::CAST_TRUNC);

uint32_t modes_of(const Arch& arch, DType from, DType to) {
    using D = DType;
    const uint32_t plain = arch.number == 2201 ? kNone : 0;  // modes that the newer chips took away
    switch (from) {
        case D::I8: case D::U8: return to == D::F16 ? kNone : 0;
        case D::I16: return to == D::F16 ? kRounds | plain : to == D::F32 ? kNone : 0;
        case D::I32:
            if (to == D::I16 || to == D::I64) return kNone;
            return to == D::F32 ? kRounds | plain : to == D::F16 ? kRounds | kNone : 0;
        case D::I64: return to == D::I32 ? kNone : to == D::F32 ? kRounds : 0;
        case D::F16:
            if (to == D::I8 || to == D::U8) return kRounds | plain;
            return to == D::F32 ? kNone : to == D::I16 || to == D::I32 ? kRounds : 0;
        case D::BF16: return to == D::F32 ? kNone : to == D::I32 ? kRounds : 0;
        case D::F32:
            if (to == D::F16) return kRounds | kNone | kOdd;
            return to == D::F32 || to == D::BF16 || to == D::I16 || to == D::I32 || to == D::I64 ? kRounds : 0;
        default: return 0;
    }
}

void cast(Core& core, const Vector& v) {
    const DType from = v.a.dtype, to = v.dst.dtype;
    const uint32_t modes = modes_of(core.arch, from, to);
    if (modes == 0) core.fail(std::string("there is no cast from ") + name_of(from) + " to " + name_of(to) + " in one step");
    if (!(modes & 1u << v.mode)) core.fail(std::string("a cast from ") + name_of(from) + " to " + name_of(to) + " does nothing with this mode");
    check_place(core, v.a);
    const uint64_t d_size = size_of(to), a_size = size_of(from);
    const Spread s = spread(v, d_size, a_size, d_size);
    touch(core, v.a, s.a, false);
    if (v.a.addr != v.dst.addr || d_size > a_size) check_overlap(core, v, v.a, s.a, s.dst, false);
    touch(core, v.dst, s.dst, true);
    const uint8_t* a = core.bytes_at(v.a, 0, 0);
    uint8_t* d = core.bytes_at(v.dst, 0, 0);
    const auto mode = static_cast<AscendC::RoundMode>(v.mode);
    for_lanes(v, d_size, a_size, d_size, [&](uint64_t x, uint64_t y, uint64_t) {
        if (is_float(from)) {
            const double value = load_float(from, a + y);
            if (!is_float(to)) store_integer(to, d + x, saturate(to, rounded(value, mode)));
            else if (to == DType::F16) store_half(d + x, value, mode);
            else store_float(to, d + x, to == from ? rounded(value, mode) : value);
        } else {
            const int64_t value = load_integer(from, a + y);
            const double scale = to == DType::F16 && from == DType::I32 ? core.deq_scale : 1.0;
            if (is_float(to)) store_float(to, d + x, static_cast<double>(value) * scale);
            else store_integer(to, d + x, saturate(to, static_cast<double>(value)));
        }
    });
}

void compare(Core& core, const Vector& v) {
    const DType dtype = v.a.dtype;
    const bool two = v.op == Op::Compare;
    if (!is_float(dtype) && !(dtype == DType::I32 && v.mode == 2))
        core.fail(std::string("comparisons are of half and float, and EQ of int32_t; not of ") + name_of(dtype));
    check_place(core, v.a);
    if (two) check_place(core, v.b);
    const auto count = static_cast<uint64_t>(v.count), size = size_of(dtype);
    if (count * size % kRepeatBytes != 0) core.fail("the count must fill whole repeats of 256 bytes");
    core.touch_read(v.a, 0, count * size);
    if (two) core.touch_read(v.b, 0, count * size);
    check_apart(core, v.dst, count / 8, v.a, count * size);
    if (two) check_apart(core, v.dst, count / 8, v.b, count * size);
    core.touch_write(v.dst, 0, count / 8);
    const uint8_t* a = core.bytes_at(v.a, 0, 0);
    const uint8_t* b = two ? core.bytes_at(v.b, 0, 0) : a;
    uint8_t* d = core.bytes_at(v.dst, 0, 0);
    std::vector<uint8_t> bits(count / 8, 0);
    for (uint64_t i = 0; i < count; ++i) {
        const bool floats = is_float(dtype);
        const double x = floats ? load_float(dtype, a + i * size) : static_cast<double>(load_integer(dtype, a + i * size));
        const double y = !two ? v.scalar : floats ? load_float(dtype, b + i * size) : static_cast<double>(load_integer(dtype, b + i * size));
        if (compares(v.mode, x, y)) bits[i / 8] = static_cast<uint8_t>(bits[i / 8] | 1u << (i % 8));
    }
    std::copy(bits.begin(), bits.end(), d);
}

void select(Core& core, const Vector& v) {
    const auto count = static_cast<uint64_t>(v.count), size = size_of(v.dst.dtype);
    const bool two = v.op == Op::Select;
    const Ref mask{Space::UB, DType::U8, static_cast<uint64_t>(v.integer), static_cast<uint64_t>(v.repeat)};
    if (v.mode != (two ? 2 : 1)) core.fail("the mode does not fit: VSEL_TENSOR_TENSOR_MODE takes two tensors, VSEL_TENSOR_SCALAR_MODE one and a scalar");
    check_place(core, v.a), check_place(core, mask);
    if (two) check_place(core, v.b);
    check_apart(core, v.dst, count * size, mask, (count + 7) / 8);
    core.touch_read(mask, 0, (count + 7) / 8);
    core.touch_read(v.a, 0, count * size);
    if (two) core.touch_read(v.b, 0, count * size);
    core.touch_write(v.dst, 0, count * size);
    const uint8_t* m = core.bytes_at(mask, 0, 0);
    const uint8_t* a = core.bytes_at(v.a, 0, 0);
    const uint8_t* b = two ? core.bytes_at(v.b, 0, 0) : a;
    uint8_t* d = core.bytes_at(v.dst, 0, 0);
    for (uint64_t i = 0; i < count; ++i) {
        const bool taken = m[i / 8] >> (i % 8) & 1;
        if (taken || two) std::memmove(d + i * size, (taken ? a : b) + i * size, size);
        else store_float(v.dst.dtype, d + i * size, v.scalar);
    }
}

}  // namespace

void reduce(Core&, const Vector&);   // reduce.cpp
void rearrange(Core&, const Vector&);  // rearrange.cpp

}  // namespace ascsim

void ascsim_vector(const ascsim::Vector& v) {
    using namespace ascsim;
    Core& core = current();
    core.issue(Pipe::V, v.line, name_of(v.op));
    check_parameters(core, v);
    check_dtypes(core, v);
    check_place(core, v.dst);
    if (v.op <= Op::Copy) return elementwise(core, v);
    if (v.op == Op::Cast) return cast(core, v);
    if (v.op == Op::Compare || v.op == Op::Compares) return compare(core, v);
    if (v.op == Op::Select || v.op == Op::Selects) return select(core, v);
    if (v.op <= Op::PairSum) return reduce(core, v);
    rearrange(core, v);
}
