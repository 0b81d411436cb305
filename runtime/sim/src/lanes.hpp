// The lanes of a vector instruction: which elements of its operands belong together.
#pragma once

#include "numbers.hpp"

namespace ascsim {

constexpr uint64_t kRepeatBytes = 256;
constexpr int kBlocksPerRepeat = 8;

// Calls `each(offset in dst, offset in a, offset in b)` in bytes, for all active lanes in order; `begin(repeat)` before
// each repeat. `sizes` are the element sizes; the widest decides how many lanes a repeat has.
template <typename Each>
void for_lanes(const Vector& v, uint64_t dst_size, uint64_t a_size, uint64_t b_size, Each each) {
    if (v.count >= 0) {
        for (uint64_t i = 0; i < static_cast<uint64_t>(v.count); ++i) each(i * dst_size, i * a_size, i * b_size);
        return;
    }
    const uint64_t widest = std::max(dst_size, std::max(a_size, b_size));
    const uint64_t lanes = kRepeatBytes / widest, lanes_per_block = kBlock / widest;
    const auto place = [&](const Walk& walk, uint64_t size, uint64_t repeat, uint64_t lane) {
        const uint64_t per_block = kBlock / size;
        const uint64_t block = size == widest ? lane / lanes_per_block : lane / per_block;
        const uint64_t in_block = lane % (size == widest ? lanes_per_block : per_block);
        return (repeat * static_cast<uint64_t>(walk.repeat) + block * static_cast<uint64_t>(walk.block)) * kBlock + in_block * size;
    };
    for (uint64_t r = 0; r < static_cast<uint64_t>(v.repeat); ++r)
        for (uint64_t lane = 0; lane < std::min<uint64_t>(lanes, 128); ++lane)
            if (v.mask[lane / 64] >> (lane % 64) & 1)
                each(place(v.dst_walk, dst_size, r, lane), place(v.a_walk, a_size, r, lane), place(v.b_walk, b_size, r, lane));
}

inline void check_place(const Core& core, const Ref& ref) {
    if (ref.space != Space::UB) core.fail(std::string("operands lie in UB, this one in ") + name_of(ref.space));
    if (ref.addr % kBlock != 0) core.fail("an operand begins at byte " + std::to_string(ref.addr) + " of UB, which is no multiple of 32");
}

// Of instructions that move elements or join them: what they write must not lie where they read.
inline void check_apart(const Core& core, const Ref& dst, uint64_t written, const Ref& src, uint64_t read) {
    if (dst.addr < src.addr + read && src.addr < dst.addr + written) core.fail("the result lies where the instruction reads");
}

// Ranges of bytes that an operand covers, joined where they touch, so that shadows are looked at once a range.
class Ranges {
public:
    void add(uint64_t from, uint64_t bytes) {
        if (count_ != 0 && from == last_) {
            last_ += bytes;
            return;
        }
        flush();
        first_ = from, last_ = from + bytes, count_ = 1;
    }
    const std::vector<std::pair<uint64_t, uint64_t>>& all() {
        flush();
        count_ = 0;
        return ranges_;
    }

private:
    void flush() {
        if (count_ != 0) ranges_.emplace_back(first_, last_ - first_);
    }
    uint64_t first_ = 0, last_ = 0;
    int count_ = 0;
    std::vector<std::pair<uint64_t, uint64_t>> ranges_;
};

}  // namespace ascsim
