// Instructions of the vector unit that move elements: to whole blocks, by index, by mask, in order.

#include <algorithm>
#include <numeric>

#include "lanes.hpp"

namespace ascsim {

void rearrange(Core& core, const Vector& v);

namespace {

void brcb(Core& core, const Vector& v) {
    const uint64_t size = size_of(v.dst.dtype), taken = static_cast<uint64_t>(v.repeat) * kBlocksPerRepeat;
    core.touch_read(v.a, 0, taken * size);
    const std::vector<uint8_t> source(core.bytes_at(v.a, 0, taken * size), core.bytes_at(v.a, 0, 0) + taken * size);
    for (uint64_t i = 0; i < taken; ++i) {
        const uint64_t at = (i / kBlocksPerRepeat * static_cast<uint64_t>(v.dst_walk.repeat) + i % kBlocksPerRepeat * static_cast<uint64_t>(v.dst_walk.block)) * kBlock;
        core.touch_write(v.dst, at, kBlock);
        uint8_t* d = core.bytes_at(v.dst, at, kBlock);
        for (uint64_t j = 0; j < kBlock; j += size) std::memcpy(d + j, source.data() + i * size, size);
    }
}

void gather(Core& core, const Vector& v) {
    const uint64_t size = size_of(v.dst.dtype), count = static_cast<uint64_t>(v.count);
    core.touch_read(v.b, 0, 4 * count);
    std::vector<uint8_t> found(count * size);
    for (uint64_t i = 0; i < count; ++i) {
        uint32_t offset;
        std::memcpy(&offset, core.bytes_at(v.b, 4 * i, 4), 4);
        const uint64_t at = static_cast<uint64_t>(v.integer) + offset;
        if (at % size != 0) core.fail("an offset is no multiple of the element's size");
        core.touch_read(v.a, at, size);
        std::memcpy(found.data() + i * size, core.bytes_at(v.a, at, size), size);
    }
    core.touch_write(v.dst, 0, count * size);
    std::copy(found.begin(), found.end(), core.bytes_at(v.dst, 0, 0));
}

void gather_mask(Core& core, const Vector& v) {
    const uint64_t size = size_of(v.dst.dtype), lanes = kRepeatBytes / size;
    const uint64_t each = v.mode != 0 ? static_cast<uint64_t>(v.count) : lanes;
    std::vector<uint8_t> kept;
    for (uint64_t r = 0; r < static_cast<uint64_t>(v.repeat); ++r) {
        const uint64_t row = r * static_cast<uint64_t>(v.a_walk.repeat) * kBlock, bits = r * static_cast<uint64_t>(v.b_walk.repeat) * kBlock;
        core.touch_read(v.b, bits, (each + 7) / 8);
        for (uint64_t i = 0; i < each; ++i) {
            if (!(*core.bytes_at(v.b, bits + i / 8, 1) >> (i % 8) & 1)) continue;
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

// Scores with their indices, the greatest first: 8 bytes each, the score in the lower half.
void sort32(Core& core, const Vector& v) {
    constexpr uint64_t kAtOnce = 32, kPair = 8;
    const uint64_t size = size_of(v.dst.dtype), count = static_cast<uint64_t>(v.repeat) * kAtOnce;
    core.touch_read(v.a, 0, count * size), core.touch_read(v.b, 0, count * 4);
    const uint8_t* scores = core.bytes_at(v.a, 0, 0);
    const uint8_t* indices = core.bytes_at(v.b, 0, 0);
    std::vector<uint8_t> pairs(count * kPair, 0);
    for (uint64_t r = 0; r < static_cast<uint64_t>(v.repeat); ++r) {
        std::vector<uint64_t> order(kAtOnce);
        std::iota(order.begin(), order.end(), r * kAtOnce);
        std::stable_sort(order.begin(), order.end(), [&](uint64_t x, uint64_t y) {
            return load_float(v.a.dtype, scores + x * size) > load_float(v.a.dtype, scores + y * size);
        });
        for (uint64_t i = 0; i < kAtOnce; ++i) {
            std::memcpy(&pairs[(r * kAtOnce + i) * kPair], scores + order[i] * size, size);
            std::memcpy(&pairs[(r * kAtOnce + i) * kPair + 4], indices + order[i] * 4, 4);
        }
    }
    core.touch_write(v.dst, 0, pairs.size());
    std::copy(pairs.begin(), pairs.end(), core.bytes_at(v.dst, 0, 0));
}

void transpose(Core& core, const Vector& v) {
    constexpr uint64_t kSide = 16, kBytes = 2 * kSide * kSide;
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
        case Op::Transpose: return transpose(core, v);
        default: core.fail("the simulated device does not have this instruction yet");
    }
}

}  // namespace ascsim
