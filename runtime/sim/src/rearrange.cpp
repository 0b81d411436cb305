// Instructions of the vector unit that move elements: to whole blocks, by index, by mask, in order.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lanes.hpp"

namespace ascsim {

void rearrange(Core& core, const Vector& v);

namespace {

void brcb(Core& core, const Vector& v) {
    check_place(core, v.a);
    const uint64_t size = size_of(v.dst.dtype), taken = static_cast<uint64_t>(v.repeat) * kBlocksPerRepeat;
    core.touch_read(v.a, 0, taken * size);
    if (taken != 0) {
        const auto blocks = (v.repeat - 1) * v.dst_walk.repeat + (kBlocksPerRepeat - 1) * v.dst_walk.block + 1;
        check_apart(core, v.dst, static_cast<uint64_t>(blocks) * kBlock, v.a, taken * size);
    }
    const std::vector<uint8_t> source(core.bytes_at(v.a, 0, taken * size), core.bytes_at(v.a, 0, 0) + taken * size);
    for (uint64_t i = 0; i < taken; ++i) {
        const uint64_t at = (i / kBlocksPerRepeat * static_cast<uint64_t>(v.dst_walk.repeat) + i % kBlocksPerRepeat * static_cast<uint64_t>(v.dst_walk.block)) * kBlock;
        core.touch_write(v.dst, at, kBlock);
        uint8_t* d = core.bytes_at(v.dst, at, kBlock);
        for (uint64_t j = 0; j < kBlock; j += size) std::memcpy(d + j, source.data() + i * size, size);
    }
}

void gather(Core& core, const Vector& v) {
    check_place(core, v.a), check_place(core, v.b);
    const uint64_t size = size_of(v.dst.dtype), count = static_cast<uint64_t>(v.count);
    core.touch_read(v.b, 0, 4 * count);
    check_apart(core, v.dst, count * size, v.b, 4 * count);
    const uint64_t most = core.arch.number == 3510 && size == 2 ? 1u << 17 : UINT64_MAX;  // bytes that offsets reach
    std::vector<uint8_t> found(count * size);
    for (uint64_t i = 0; i < count; ++i) {
        uint32_t offset;
        std::memcpy(&offset, core.bytes_at(v.b, 4 * i, 4), 4);
        const uint64_t at = static_cast<uint64_t>(v.integer) + offset;
        if (at % size != 0) core.fail("an offset is no multiple of the element's size");
        if (offset >= most) core.fail("on this chip an offset of 16-bit elements is less than 131072");
        core.touch_read(v.a, at, size);
        const Ref element{v.a.space, v.a.dtype, v.a.addr + at, size};
        check_apart(core, v.dst, count * size, element, size);
        std::memcpy(found.data() + i * size, core.bytes_at(v.a, at, size), size);
    }
    core.touch_write(v.dst, 0, count * size);
    std::copy(found.begin(), found.end(), core.bytes_at(v.dst, 0, 0));
}

void gather_mask(Core& core, const Vector& v) {
    check_place(core, v.a), check_place(core, v.scalar == 0 ? v.b : v.a);
    const uint64_t size = size_of(v.dst.dtype), lanes = kRepeatBytes / size;
    const uint64_t each = v.mode != 0 ? static_cast<uint64_t>(v.count) : lanes;
    const int pattern = static_cast<int>(v.scalar);
    const auto taken = [&](uint64_t i, uint64_t bits) {
        if (pattern == 0) return (*core.bytes_at(v.b, bits + i / 8, 1) >> (i % 8) & 1) != 0;
        if (pattern < 3) return i % 2 == static_cast<uint64_t>(pattern - 1);
        return pattern == 7 || i % 4 == static_cast<uint64_t>(pattern - 3);
    };
    std::vector<uint8_t> kept;
    for (uint64_t r = 0; r < static_cast<uint64_t>(v.repeat); ++r) {
        const uint64_t row = r * static_cast<uint64_t>(v.a_walk.repeat) * kBlock, bits = r * static_cast<uint64_t>(v.b_walk.repeat) * kBlock;
        if (pattern == 0) core.touch_read(v.b, bits, (each + 7) / 8);
        for (uint64_t i = 0; i < each; ++i) {
            if (!taken(i, bits)) continue;
            const uint64_t at = row + i / (kBlock / size) * static_cast<uint64_t>(v.a_walk.block) * kBlock + i % (kBlock / size) * size;
            core.touch_read(v.a, at, size);
            const uint8_t* from = core.bytes_at(v.a, at, size);
            kept.insert(kept.end(), from, from + size);
        }
    }
    core.touch_write(v.dst, 0, kept.size());
    std::copy(kept.begin(), kept.end(), core.bytes_at(v.dst, 0, 0));
    *reinterpret_cast<uint64_t*>(v.integer) = kept.size() / size;
}

constexpr uint64_t kPair = 8;

void check_begin(const Core& core, const Ref& ref, const char* what, uint64_t multiple) {
    if (ref.space != Space::UB) core.fail(std::string(what) + " must be in UB");
    if (ref.addr % multiple != 0)
        core.fail(std::string(what) + " begins at byte " + std::to_string(ref.addr) + " of UB, which must be a multiple of " + std::to_string(multiple));
}

double score_of(const Core& core, DType dtype, const uint8_t* at) {
    const double score = load_float(dtype, at);
    if (std::isnan(score)) core.fail("a score is NaN, whose order is not documented");
    return score;
}

// Scores with their indices, the greatest first: 8 bytes each, the score in the lower half.
void sort32(Core& core, const Vector& v) {
    constexpr uint64_t kAtOnce = 32;
    const uint64_t size = size_of(v.dst.dtype), count = static_cast<uint64_t>(v.repeat) * kAtOnce;
    check_begin(core, v.dst, "the result", kAtOnce * kPair), check_begin(core, v.a, "the scores", kAtOnce * size), check_begin(core, v.b, "the indices", kAtOnce * 4);
    check_apart(core, v.dst, count * kPair, v.a, count * size), check_apart(core, v.dst, count * kPair, v.b, count * 4);
    core.touch_read(v.a, 0, count * size), core.touch_read(v.b, 0, count * 4);
    const uint8_t* scores = core.bytes_at(v.a, 0, 0);
    const uint8_t* indices = core.bytes_at(v.b, 0, 0);
    std::vector<uint8_t> pairs(count * kPair, 0);
    for (uint64_t r = 0; r < static_cast<uint64_t>(v.repeat); ++r) {
        std::vector<uint64_t> order(kAtOnce);
        std::iota(order.begin(), order.end(), r * kAtOnce);
        std::stable_sort(order.begin(), order.end(), [&](uint64_t x, uint64_t y) {
            return score_of(core, v.a.dtype, scores + x * size) > score_of(core, v.a.dtype, scores + y * size);
        });
        for (uint64_t i = 0; i < kAtOnce; ++i) {
            std::memcpy(&pairs[(r * kAtOnce + i) * kPair], scores + order[i] * size, size);
            std::memcpy(&pairs[(r * kAtOnce + i) * kPair + 4], indices + order[i] * 4, 4);
        }
    }
    core.touch_write(v.dst, 0, pairs.size());
    std::copy(pairs.begin(), pairs.end(), core.bytes_at(v.dst, 0, 0));
}

void check_merge(const Core& core, const Merge& m, const uint64_t (&lengths)[4], uint64_t each) {
    if (m.valid != 3 && m.valid != 7 && m.valid != 15) core.fail("validBit must be 3, 7 or 15, it is " + std::to_string(m.valid));
    if (m.stops_early) core.fail("the simulated device does not stop where a list ends: ifExhaustedSuspension must be false");
    if (m.repeat == 0 && core.arch.number == 3510) core.fail("on this chip a count or repeatTime of 0 need not be no operation");
    check_begin(core, m.dst, "the result", kBlock);
    bool regular = m.valid == 15;
    for (int i = 0; i < 4; ++i) {
        if (!(m.valid >> i & 1)) continue;
        if (lengths[i] > 4095) core.fail("a list has at most 4095 pairs, not " + std::to_string(lengths[i]));
        check_begin(core, m.lists[i], "a list", kPair);
        regular = regular && lengths[i] == lengths[0] && m.lists[i].addr == m.lists[0].addr + static_cast<uint64_t>(i) * lengths[0] * kPair;
        const uint64_t read = lengths[i] + (m.repeat > 1 ? static_cast<uint64_t>(m.repeat - 1) * each : 0);
        check_apart(core, m.dst, static_cast<uint64_t>(m.repeat) * each * kPair, m.lists[i], read * kPair);
    }
    if (m.repeat > 1 && !regular) core.fail("repeats take four lists of one length, one right after the other");
}

// Lists whose scores fall become one; of equal scores, that of the earlier list is first.
void merge(Core& core, const Merge& m) {
    uint64_t lengths[4], each = 0;
    for (int i = 0; i < 4; ++i) each += lengths[i] = m.valid >> i & 1 ? static_cast<uint64_t>(m.lengths[i]) : 0;
    check_merge(core, m, lengths, each);
    std::vector<uint8_t> made;
    for (uint64_t r = 0; r < static_cast<uint64_t>(m.repeat); ++r) {
        std::vector<std::pair<double, const uint8_t*>> all;
        for (int i = 0; i < 4; ++i) {
            if (lengths[i] == 0) continue;
            const uint64_t at = r * each * kPair;
            core.touch_read(m.lists[i], at, lengths[i] * kPair);
            const uint8_t* pairs = core.bytes_at(m.lists[i], at, lengths[i] * kPair);
            for (uint64_t k = 0; k < lengths[i]; ++k) {
                const double score = score_of(core, m.dst.dtype, pairs + k * kPair);
                if (k != 0 && score > all.back().first) core.fail("list " + std::to_string(i + 1) + " is not in order at pair " + std::to_string(k));
                all.emplace_back(score, pairs + k * kPair);
            }
        }
        std::stable_sort(all.begin(), all.end(), [](const auto& x, const auto& y) { return x.first > y.first; });
        for (const auto& pair : all) made.insert(made.end(), pair.second, pair.second + kPair);
    }
    core.touch_write(m.dst, 0, made.size());
    std::copy(made.begin(), made.end(), core.bytes_at(m.dst, 0, made.size()));
}

void transpose(Core& core, const Vector& v) {
    constexpr uint64_t kSide = 16, kBytes = 2 * kSide * kSide;
    check_place(core, v.a);
    check_apart(core, v.dst, kBytes, v.a, kBytes);
    core.touch_read(v.a, 0, kBytes), core.touch_write(v.dst, 0, kBytes);
    const std::vector<uint8_t> source(core.bytes_at(v.a, 0, kBytes), core.bytes_at(v.a, 0, 0) + kBytes);
    uint8_t* d = core.bytes_at(v.dst, 0, kBytes);
    for (uint64_t i = 0; i < kSide; ++i)
        for (uint64_t j = 0; j < kSide; ++j) std::memcpy(d + 2 * (j * kSide + i), source.data() + 2 * (i * kSide + j), 2);
}

}  // namespace

void rearrange(Core& core, const Vector& v) {
    switch (v.op) {
        case Op::Brcb: return brcb(core, v);
        case Op::Gather: return gather(core, v);
        case Op::GatherMask: return gather_mask(core, v);
        case Op::Sort32: return sort32(core, v);
        default: return transpose(core, v);
    }
}

}  // namespace ascsim

void ascsim_merge(const ascsim::Merge& m) {
    using namespace ascsim;
    Core& core = current();
    core.issue(Pipe::V, m.line, name_of(Op::MrgSort));
    if (m.dst.dtype != DType::F16 && m.dst.dtype != DType::F32) core.fail(std::string("the vector unit has no MrgSort for ") + name_of(m.dst.dtype));
    merge(core, m);
}
