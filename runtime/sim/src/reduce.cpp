// Reductions of the vector unit: over a repeat, over a block, over pairs.

#include "lanes.hpp"

namespace ascsim {

void reduce(Core& core, const Vector& v);

namespace {

// As the hardware adds: neighbours first, then their sums, with a rounding at each step.
double tree_sum(std::vector<double> values, DType dtype) {
    if (values.empty()) return 0.0;
    while (values.size() > 1) {
        std::vector<double> half_as_many;
        for (size_t i = 0; i < values.size(); i += 2) {
            uint8_t stored[4];
            store_float(dtype, stored, i + 1 < values.size() ? values[i] + values[i + 1] : values[i]);
            half_as_many.push_back(load_float(dtype, stored));
        }
        values.swap(half_as_many);
    }
    return values[0];
}

struct Extreme {
    double value = 0;
    uint32_t lane = 0;
};

Extreme extreme(const std::vector<double>& values, const std::vector<uint32_t>& lanes, bool largest) {
    Extreme best{values.empty() ? 0.0 : values[0], lanes.empty() ? 0 : lanes[0]};
    for (size_t i = 1; i < values.size(); ++i)
        if (largest ? values[i] > best.value : values[i] < best.value) best = {values[i], lanes[i]};
    return best;
}

bool is_sum(Op op) { return op == Op::WholeSum || op == Op::BlockSum || op == Op::PairSum; }
bool is_max(Op op) { return op == Op::WholeMax || op == Op::BlockMax; }

// What newer chips write for a block or a pair that the mask leaves nothing of; older ones leave what is there.
double of_nothing(Op op) { return is_sum(op) ? 0.0 : is_max(op) ? -INFINITY : INFINITY; }

struct Group {
    std::vector<double> values;
    std::vector<uint32_t> lanes;
};

// Elements of a repeat in the groups that each give one result.
std::vector<Group> groups_of(Core& core, const Vector& v, uint64_t repeat) {
    const uint64_t size = size_of(v.a.dtype), lanes = kRepeatBytes / size, per_block = kBlock / size;
    const bool whole = v.op <= Op::WholeMin, pairs = v.op == Op::PairSum;
    std::vector<Group> groups(whole ? 1 : pairs ? lanes / 2 : kBlocksPerRepeat);
    for (uint64_t lane = 0; lane < lanes; ++lane) {
        if (!(v.mask[lane / 64] >> (lane % 64) & 1)) continue;
        const uint64_t at = (repeat * static_cast<uint64_t>(v.a_walk.repeat) + lane / per_block * static_cast<uint64_t>(v.a_walk.block)) * kBlock + lane % per_block * size;
        core.touch_read(v.a, at, size);
        Group& group = groups[whole ? 0 : pairs ? lane / 2 : lane / per_block];
        group.values.push_back(load_float(v.a.dtype, core.bytes_at(v.a, at, size)));
        group.lanes.push_back(static_cast<uint32_t>(lane));
    }
    return groups;
}

void put(Core& core, const Vector& v, uint64_t at, double value) {
    const uint64_t size = size_of(v.dst.dtype);
    core.touch_write(v.dst, at, size);
    store_float(v.dst.dtype, core.bytes_at(v.dst, at, size), value);
}

void put_index(Core& core, const Vector& v, uint64_t at, uint32_t index) {
    const uint64_t size = size_of(v.dst.dtype);
    core.touch_write(v.dst, at, size);
    std::memcpy(core.bytes_at(v.dst, at, size), &index, size);
}

// Value and lane of an extreme, in the order that was asked for.
void put_extreme(Core& core, const Vector& v, uint64_t repeat, const Extreme& best) {
    const uint64_t size = size_of(v.dst.dtype), stride = repeat * static_cast<uint64_t>(v.dst_walk.repeat) * size;
    switch (static_cast<AscendC::ReduceOrder>(v.mode)) {
        case AscendC::ReduceOrder::ORDER_VALUE_INDEX:
            put(core, v, 2 * stride, best.value), put_index(core, v, 2 * stride + size, best.lane);
            break;
        case AscendC::ReduceOrder::ORDER_INDEX_VALUE:
            put_index(core, v, 2 * stride, best.lane), put(core, v, 2 * stride + size, best.value);
            break;
        case AscendC::ReduceOrder::ORDER_ONLY_VALUE: put(core, v, stride, best.value); break;
        default: put_index(core, v, stride, best.lane);
    }
}

// Blocks of a repeat that a mask leaves some lane of, from the first one.
int64_t blocks_read(const Vector& v, uint64_t size) {
    for (int64_t lane = kRepeatBytes / static_cast<int64_t>(size); lane-- > 0;)
        if (v.mask[lane / 64] >> (lane % 64) & 1) return lane * static_cast<int64_t>(size) / kBlock + 1;
    return 0;
}

void check_result(const Core& core, const Vector& v, uint64_t size) {
    const int64_t last = v.repeat - 1, blocks = blocks_read(v, size);
    if (blocks == 0) return;
    const int64_t each = v.op <= Op::WholeMin ? 1 : v.op == Op::PairSum ? kRepeatBytes / static_cast<int64_t>(2 * size) : kBlocksPerRepeat;
    const auto written = static_cast<uint64_t>((last * v.dst_walk.repeat + 1) * each) * size;
    check_apart(core, v.dst, written, v.a, static_cast<uint64_t>(last * v.a_walk.repeat + (blocks - 1) * v.a_walk.block + 1) * kBlock);
}

}  // namespace

void reduce(Core& core, const Vector& v) {
    check_place(core, v.a);
    const uint64_t size = size_of(v.dst.dtype);
    if (v.repeat > 0) check_result(core, v, size);
    for (uint64_t r = 0; r < static_cast<uint64_t>(v.repeat); ++r) {
        const auto groups = groups_of(core, v, r);
        const uint64_t row = r * static_cast<uint64_t>(v.dst_walk.repeat);
        for (uint64_t g = 0; g < groups.size(); ++g) {
            const auto& [values, lanes] = groups[g];
            if (values.empty()) {
                if (core.arch.number == 3510) put(core, v, (row * groups.size() + g) * size, of_nothing(v.op));
                continue;
            }
            const bool whole_extreme = v.op == Op::WholeMax || v.op == Op::WholeMin;
            if (whole_extreme) put_extreme(core, v, r, extreme(values, lanes, is_max(v.op)));
            else put(core, v, (row * (v.op == Op::WholeSum ? 1 : groups.size()) + g) * size,
                     is_sum(v.op) ? tree_sum(values, v.a.dtype) : extreme(values, lanes, is_max(v.op)).value);
        }
    }
}

}  // namespace ascsim
