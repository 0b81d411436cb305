// Buffers from a pipe: queues that hand tensors from one unit to the next, and plain ones. The library follows every
// buffer through free, allocated, queued and taken, and says where a kernel leaves that way.
#pragma once

#include "ascsim/tensor.h"

namespace AscendC {

struct Buffers {
    static constexpr int kMost = 16;
    ascsim::Space space = ascsim::Space::UB;
    uint64_t address[kMost] = {};
    uint64_t bytes = 0;
    int count = 0, next = 0;
};

enum QueueEvent { QUEUE_INIT, QUEUE_ALLOC, QUEUE_ENQUE, QUEUE_DEQUE, QUEUE_FREE };

template <TPosition position, int32_t depth>
class TQue {
public:
    template <typename T>
    LocalTensor<T> AllocTensor(ASCSIM_LINE) {
        if (buffers_.count == 0) ascsim_fail("AllocTensor: the queue has no buffers yet: call InitBuffer", line);
        const uint64_t at = buffers_.address[buffers_.next];
        buffers_.next = (buffers_.next + 1) % buffers_.count;
        ascsim_queue(id(), QUEUE_ALLOC, at, depth, static_cast<int>(position), line);
        LocalTensor<T> tensor;
        tensor.set(buffers_.space, at, buffers_.bytes);
        return tensor;
    }
    template <typename T>
    bool EnQue(const LocalTensor<T>& tensor, ASCSIM_LINE) {
        ascsim_queue(id(), QUEUE_ENQUE, tensor.GetPhyAddr(), depth, static_cast<int>(position), line);
        waiting_[tail_++ % Buffers::kMost] = tensor.GetPhyAddr();
        return true;
    }
    template <typename T>
    LocalTensor<T> DeQue(ASCSIM_LINE) {
        if (head_ == tail_) ascsim_fail("DeQue: nothing was queued", line);
        const uint64_t at = waiting_[head_++ % Buffers::kMost];
        ascsim_queue(id(), QUEUE_DEQUE, at, depth, static_cast<int>(position), line);
        LocalTensor<T> tensor;
        tensor.set(buffers_.space, at, buffers_.bytes);
        return tensor;
    }
    template <typename T>
    void FreeTensor(const LocalTensor<T>& tensor, ASCSIM_LINE) {
        ascsim_queue(id(), QUEUE_FREE, tensor.GetPhyAddr(), depth, static_cast<int>(position), line);
    }
    Buffers& buffers() { return buffers_; }
    uint64_t id() const { return reinterpret_cast<uint64_t>(this); }
    static constexpr TPosition kPosition = position;

private:
    Buffers buffers_;
    uint64_t waiting_[Buffers::kMost] = {};
    uint64_t head_ = 0, tail_ = 0;
};

template <TPosition position>
class TBuf {
public:
    template <typename T>
    LocalTensor<T> Get() const {
        LocalTensor<T> tensor;
        tensor.set(buffers_.space, buffers_.address[0], buffers_.bytes);
        return tensor;
    }
    template <typename T>
    LocalTensor<T> GetWithOffset(uint32_t elements, uint32_t offset) const {
        LocalTensor<T> tensor;
        tensor.set(buffers_.space, buffers_.address[0] + offset, uint64_t{elements} * sizeof(T));
        return tensor;
    }
    Buffers& buffers() { return buffers_; }
    static constexpr TPosition kPosition = position;

private:
    Buffers buffers_;
};

class TPipe {
public:
    TPipe() { ascsim_begin(1), ascsim_reset_allocation(); }
    template <TPosition position, int32_t depth>
    bool InitBuffer(TQue<position, depth>& queue, uint8_t count, uint32_t bytes, ASCSIM_LINE) {
        take(queue.buffers(), space_of(position), count, bytes, line);
        ascsim_queue(queue.id(), QUEUE_INIT, 0, count, static_cast<int>(position), line);
        return true;
    }
    template <TPosition position>
    bool InitBuffer(TBuf<position>& buffer, uint32_t bytes, ASCSIM_LINE) {
        take(buffer.buffers(), space_of(position), 1, bytes, line);
        return true;
    }
    TEventID FetchEventID(HardEvent) { return next_event_++ % 6; }
    template <HardEvent event>
    TEventID AllocEventID() {
        return next_event_++ % 6;
    }
    template <HardEvent event>
    void ReleaseEventID(TEventID) {}
    void Reset() { ascsim_reset_allocation(); }

private:
    static void take(Buffers& buffers, ascsim::Space space, int count, uint64_t bytes, int line) {
        if (count < 1 || count > Buffers::kMost) ascsim_fail("InitBuffer: a queue has 1 to 16 buffers", line);
        buffers.space = space;
        buffers.count = count;
        buffers.bytes = (bytes + 31) / 32 * 32;
        for (int i = 0; i < count; ++i) buffers.address[i] = ascsim_allocate(space, buffers.bytes, line);
    }
    TEventID next_event_ = 0;
};

// The static style: addresses are the program's own, one after the other.
template <Hardware hardware>
class LocalMemAllocator {
public:
    template <TPosition position, typename T>
    LocalTensor<T> Alloc(uint32_t elements, ASCSIM_LINE) {
        const uint64_t bytes = (uint64_t{elements} * sizeof(T) + 31) / 32 * 32;
        const uint64_t at = used_;
        used_ += bytes;
        return LocalTensor<T>(space_of(hardware), at, bytes, line);
    }
    uint32_t GetCurAddr() const { return static_cast<uint32_t>(used_); }

private:
    uint64_t used_ = 0;
};

}  // namespace AscendC
