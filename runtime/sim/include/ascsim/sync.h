// Order between units and between cores, and what a core knows of itself.
#pragma once

#include "ascsim/types.h"

namespace AscendC {

namespace sim {

struct Ends {
    ascsim::Pipe from, to;
};

constexpr Ends ends_of(HardEvent event) {
    using P = ascsim::Pipe;
    constexpr Ends table[] = {
        {P::MTE2, P::MTE1}, {P::MTE1, P::MTE2}, {P::MTE1, P::M}, {P::M, P::MTE1}, {P::MTE2, P::V}, {P::V, P::MTE2},
        {P::MTE3, P::V}, {P::V, P::MTE3}, {P::M, P::V}, {P::V, P::M}, {P::V, P::V}, {P::MTE3, P::MTE1},
        {P::MTE1, P::MTE3}, {P::MTE1, P::V}, {P::MTE2, P::M}, {P::M, P::MTE2}, {P::V, P::MTE1}, {P::M, P::FIX},
        {P::FIX, P::M}, {P::MTE3, P::MTE2}, {P::MTE2, P::MTE3}, {P::S, P::V}, {P::V, P::S}, {P::S, P::MTE2},
        {P::MTE2, P::S}, {P::S, P::MTE3}, {P::MTE3, P::S}, {P::MTE2, P::FIX}, {P::FIX, P::MTE2}, {P::FIX, P::S},
        {P::M, P::S}, {P::FIX, P::MTE3}, {P::MTE1, P::FIX}, {P::FIX, P::MTE1}, {P::FIX, P::FIX}};
    return table[static_cast<int>(event)];
}

constexpr ascsim::Pipe pipe_of(pipe_t pipe) {
    return pipe == PIPE_ALL ? ascsim::Pipe::ALL : static_cast<ascsim::Pipe>(pipe);
}

}  // namespace sim

template <pipe_t pipe>
void PipeBarrier(ASCSIM_LINE) {
    ascsim_barrier(sim::pipe_of(pipe), line);
}

template <HardEvent event>
void SetFlag(int32_t id, ASCSIM_LINE) {
    ascsim_set_flag(sim::ends_of(event).from, sim::ends_of(event).to, id, line);
}

template <HardEvent event>
void WaitFlag(int32_t id, ASCSIM_LINE) {
    ascsim_wait_flag(sim::ends_of(event).from, sim::ends_of(event).to, id, line);
}

template <uint8_t mode, pipe_t pipe>
void CrossCoreSetFlag(uint16_t id, ASCSIM_LINE) {
    ascsim_cross_set(mode, sim::pipe_of(pipe), id, line);
}

template <uint8_t mode = 0, pipe_t pipe = PIPE_S>
void CrossCoreWaitFlag(uint16_t id, ASCSIM_LINE) {
    ascsim_cross_wait(id, sim::pipe_of(pipe), line);
}

template <bool isAIVOnly = true>
void SyncAll(ASCSIM_LINE) {
    ascsim_sync_all(line);
}

// Tells a core where the flags between cores are: kernels in the older mixed form get that address as an argument.
inline void SetSyncBaseAddr(uint64_t config, ASCSIM_LINE) { ascsim_sync_base(config, line); }

inline int64_t GetBlockIdx() { return ascsim_block_index(); }
inline int64_t GetBlockNum() { return ascsim_block_count(); }
inline int64_t GetSubBlockIdx() { return ascsim_sub_block(); }
inline int64_t GetTaskRatio() { return ascsim_task_ratio(); }
inline int64_t GetSystemCycle() { return ascsim_cycle(); }
inline void InitSocState() { ascsim_begin(0); }

}  // namespace AscendC
