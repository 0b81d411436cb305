// Copies between memories, atomics on their way, and the scalar unit's accesses.

#include <algorithm>

#include "numbers.hpp"

namespace ascsim {

namespace {

bool is_cube_memory(Space space) { return space != Space::GM && space != Space::UB; }

// The unit that moves data from one memory to another.
Pipe mover(const Core& core, Space from, Space to) {
    const auto is_near = [](Space space) { return space == Space::UB || space == Space::L1; };
    if (from == Space::GM && is_near(to)) return Pipe::MTE2;
    if (to == Space::GM && is_near(from)) return Pipe::MTE3;
    if (from == Space::UB && to == Space::UB) return Pipe::V;
    if (from == Space::L1) return Pipe::MTE1;
    core.fail(std::string("nothing moves data from ") + name_of(from) + " to " + name_of(to));
}

void check_local(const Core& core, const Ref& ref, const char* role) {
    if (ref.space == Space::GM) return;
    if (is_cube_memory(ref.space) != core.cube) core.fail(std::string("this core has no ") + name_of(ref.space));
    const uint64_t alignment = core.arch.alignment[static_cast<int>(ref.space)];
    if (ref.addr % alignment != 0)
        core.fail(std::string(role) + " begins at byte " + std::to_string(ref.addr) + " of " + name_of(ref.space) + ", which is no multiple of " + std::to_string(alignment));
}

void accumulate(Core& core, uint8_t* to, const uint8_t* from, uint64_t bytes) {
    const DType dtype = core.atomic_dtype;
    const uint64_t size = size_of(dtype);
    for (uint64_t i = 0; i + size <= bytes; i += size) {
        if (is_float(dtype)) {
            const double old = load_float(dtype, to + i), more = load_float(dtype, from + i);
            store_float(dtype, to + i, core.atomic == 1 ? old + more : core.atomic == 2 ? std::max(old, more) : std::min(old, more));
        } else {
            const int64_t old = load_integer(dtype, to + i), more = load_integer(dtype, from + i);
            store_integer(dtype, to + i, core.atomic == 1 ? old + more : core.atomic == 2 ? std::max(old, more) : std::min(old, more));
        }
    }
}

void move(Core& core, const Copy& c, uint64_t to, uint64_t from) {
    const auto bytes = static_cast<uint64_t>(c.block_bytes);
    core.touch_read(c.src, from, bytes);
    core.touch_write(c.dst, to, bytes);
    uint8_t* d = core.bytes_at(c.dst, to, bytes);
    const uint8_t* s = core.bytes_at(c.src, from, bytes);
    if (core.atomic != 0 && c.dst.space == Space::GM) accumulate(core, d, s, bytes);
    else std::memmove(d, s, bytes);
}

// What stands beside a block up to whole 32 bytes: the caller's number, else whatever the engine has, or the block's
// first element where nobody asked for padding.
void pad(Core& core, const Copy& c, uint64_t row) {
    const uint64_t size = size_of(c.dst.dtype), left = static_cast<uint64_t>(c.left) * size;
    const uint64_t end = left + static_cast<uint64_t>(c.block_bytes), padded = end + static_cast<uint64_t>(c.right) * size;
    const bool asked = c.left != 0 || c.right != 0;
    uint8_t first[8] = {}, chosen[8] = {};
    std::memcpy(first, core.bytes_at(c.dst, row + left, size), size);
    if (is_float(c.dst.dtype)) store_float(c.dst.dtype, chosen, c.value);
    else store_integer(c.dst.dtype, chosen, static_cast<int64_t>(c.value));
    const auto fill = [&](uint64_t from, uint64_t to) {
        if (from == to) return;
        core.touch_write(c.dst, row + from, to - from);
        for (uint64_t at = from; at + size <= to; at += size) std::memcpy(core.bytes_at(c.dst, row + at, size), asked ? chosen : first, size);
        if (asked && !c.pads_value) std::memset(core.defined_at(c.dst, row + from), 0, to - from);
    };
    fill(0, left), fill(end, (padded + kBlock - 1) / kBlock * kBlock);
}

}  // namespace

}  // namespace ascsim

void ascsim_copy(const ascsim::Copy& c) {
    using namespace ascsim;
    Core& core = current();
    core.line = c.line, core.doing = c.pads ? "DataCopyPad" : "DataCopy";
    const Pipe pipe = mover(core, c.src.space, c.dst.space);
    core.issue(pipe, c.line, core.doing);
    check_local(core, c.dst, "the destination"), check_local(core, c.src, "the source");
    if (c.blocks < 0 || c.blocks > 4095) core.fail("blockCount must be at most 4095, it is " + std::to_string(c.blocks));
    if (c.block_bytes >= 1 << 21) core.fail("a block must be shorter than 2 MiB");
    const uint64_t size = size_of(c.dst.dtype);
    if ((static_cast<uint64_t>(c.left) + static_cast<uint64_t>(c.right)) * size > 2 * kBlock || static_cast<uint64_t>(c.left) * size > kBlock || static_cast<uint64_t>(c.right) * size > kBlock)
        core.fail("padding is at most 32 bytes on either side");
    if (c.pads_value && size == 8 && c.value != 0) core.fail("elements of 64 bits are padded with 0 alone");
    const bool into_local = c.dst.space != Space::GM;
    const auto bytes = static_cast<uint64_t>(c.block_bytes), left = static_cast<uint64_t>(c.left) * size;
    const auto rounded_up = [&](uint64_t n) { return (n + kBlock - 1) / kBlock * kBlock; };
    const uint64_t right = static_cast<uint64_t>(c.right) * size;
    const uint64_t row = into_local && c.pads ? rounded_up(left + bytes + right) : bytes;
    const uint64_t src_row = !into_local && c.pads ? rounded_up(bytes) : bytes;
    if (c.src.space == Space::GM) core.moves_rows(c.src, c.blocks, bytes, bytes + static_cast<uint64_t>(c.src_gap));
    if (c.dst.space == Space::GM) core.moves_rows(c.dst, c.blocks, bytes, bytes + static_cast<uint64_t>(c.dst_gap));
    for (uint64_t i = 0; i < static_cast<uint64_t>(c.blocks); ++i) {
        const uint64_t to = i * (row + static_cast<uint64_t>(c.dst_gap)), from = i * (src_row + static_cast<uint64_t>(c.src_gap));
        move(core, c, to + (into_local ? left : 0), from);
        if (into_local && c.pads && bytes != 0) pad(core, c, to);
    }
}

void ascsim_nd2nz(const ascsim::Nd2Nz& c) {
    using namespace ascsim;
    Core& core = current();
    core.issue(Pipe::MTE2, c.line, "DataCopy (ND to NZ)");
    check_local(core, c.dst, "the destination");
    if (c.src.space != Space::GM || c.dst.space != Space::L1) core.fail("it goes from GM to L1");
    if (c.rows > 16384 || c.cols > 65535 || c.src_pitch > 65535 || c.dst_c0 > 16384 || c.dst_n > 16384 || c.matrices > 4095) core.fail("a parameter is out of its range");
    const uint64_t size = size_of(c.dst.dtype), c0 = kBlock / size;
    for (uint64_t m = 0; m < static_cast<uint64_t>(c.matrices); ++m) {
        Ref matrix = c.src;
        matrix.addr += m * static_cast<uint64_t>(c.src_matrix) * size;
        core.moves_rows(matrix, c.rows, static_cast<uint64_t>(c.cols) * size, static_cast<uint64_t>(c.src_pitch) * size);
        for (uint64_t r = 0; r < static_cast<uint64_t>(c.rows); ++r)
            for (uint64_t k = 0; k < static_cast<uint64_t>(c.cols); k += c0) {
                const uint64_t n = std::min(c0, static_cast<uint64_t>(c.cols) - k);
                const uint64_t from = (m * static_cast<uint64_t>(c.src_matrix) + r * static_cast<uint64_t>(c.src_pitch) + k) * size;
                const uint64_t to = (m * static_cast<uint64_t>(c.dst_matrix)) * size + (k / c0 * static_cast<uint64_t>(c.dst_c0) + r * static_cast<uint64_t>(c.dst_n)) * kBlock;
                core.touch_read(c.src, from, n * size);
                core.touch_write(c.dst, to, kBlock);
                uint8_t* d = core.bytes_at(c.dst, to, kBlock);
                std::memset(d, 0, kBlock);
                std::memcpy(d, core.bytes_at(c.src, from, n * size), n * size);
            }
    }
}

void ascsim_scalar_read(const ascsim::Ref& ref, void* value, int line) {
    using namespace ascsim;
    Core& core = current();
    core.issue(Pipe::S, line, "GetValue");
    const uint64_t size = size_of(ref.dtype);
    core.touch_read(ref, 0, size);
    std::memcpy(value, core.bytes_at(ref, 0, size), size);
}

void ascsim_scalar_write(const ascsim::Ref& ref, const void* value, int line) {
    using namespace ascsim;
    Core& core = current();
    core.issue(Pipe::S, line, "SetValue");
    const uint64_t size = size_of(ref.dtype);
    core.touch_write(ref, 0, size);
    std::memcpy(core.bytes_at(ref, 0, size), value, size);
}

void ascsim_atomic(int mode, ascsim::DType dtype, int line) {
    using D = ascsim::DType;
    auto& core = ascsim::current();
    core.line = line, core.doing = "SetAtomic";
    if (mode != 0 && dtype != D::I8 && dtype != D::I16 && dtype != D::I32 && !ascsim::is_float(dtype))
        core.fail(std::string("stores add up no ") + ascsim::name_of(dtype));
    core.atomic = mode, core.atomic_dtype = dtype;
}
