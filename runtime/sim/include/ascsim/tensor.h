// Tensors: a place in a memory with a type and a length.
#pragma once

#include "ascsim/types.h"

namespace AscendC {

template <typename T>
class GlobalTensor {
public:
    void SetGlobalBuffer(T* address, uint64_t elements) { address_ = address, size_ = elements; }
    void SetGlobalBuffer(T* address) { address_ = address, size_ = 0; }
    GlobalTensor operator[](uint64_t offset) const {
        GlobalTensor shifted;
        shifted.address_ = address_ + offset;
        shifted.size_ = size_ == 0 ? 0 : (offset < size_ ? size_ - offset : 0);
        shifted.bounded_ = size_ != 0 || bounded_;
        return shifted;
    }
    uint64_t GetSize() const { return size_; }
    T* GetPhyAddr() const { return address_; }
    template <typename U>
    GlobalTensor<U> ReinterpretCast() const {
        GlobalTensor<U> other;
        other.SetGlobalBuffer(reinterpret_cast<U*>(address_), size_ * sizeof(T) / sizeof(U));
        return other;
    }
    void SetL2CacheHint(CacheMode) {}
    T GetValue(uint64_t offset, ASCSIM_LINE) const {
        T value;
        ascsim_scalar_read((*this)[offset].ref(), &value, line);
        return value;
    }
    void SetValue(uint64_t offset, T value, ASCSIM_LINE) const {
        ascsim_scalar_write((*this)[offset].ref(), &value, line);
    }
    ascsim::Ref ref() const {
        const bool unlimited = size_ == 0 && !bounded_;
        return {ascsim::Space::GM, ascsim::dtype_of<T>(), reinterpret_cast<uint64_t>(address_),
                unlimited ? UINT64_MAX : size_ * sizeof(T)};
    }

private:
    T* address_ = nullptr;
    uint64_t size_ = 0;
    bool bounded_ = false;
};

template <typename T>
class LocalTensor {
public:
    using PrimType = T;
    LocalTensor() = default;
    LocalTensor(TPosition position, uint32_t address, uint32_t elements, ASCSIM_LINE)
        : LocalTensor(space_of(position), address, uint64_t{elements} * sizeof(T), line) {}
    LocalTensor(ascsim::Space space, uint64_t address, uint64_t bytes, int line)
        : space_(space), address_(address), bytes_(bytes) {
        ascsim_check_tensor(ref(), 0, line);
    }
    LocalTensor operator[](uint32_t offset) const {
        LocalTensor shifted = *this;
        const uint64_t skipped = uint64_t{offset} * sizeof(T);
        shifted.address_ += skipped;
        shifted.bytes_ = skipped < bytes_ ? bytes_ - skipped : 0;
        return shifted;
    }
    template <typename U>
    LocalTensor<U> ReinterpretCast() const {
        LocalTensor<U> other;
        other.set(space_, address_, bytes_);
        return other;
    }
    uint32_t GetSize() const { return static_cast<uint32_t>(bytes_ / sizeof(T)); }
    uint64_t GetPhyAddr() const { return address_; }
    T GetValue(uint32_t offset, ASCSIM_LINE) const {
        T value;
        ascsim_scalar_read((*this)[offset].ref(), &value, line);
        return value;
    }
    T operator()(uint32_t offset) const { return GetValue(offset); }
    void SetValue(uint32_t offset, T value, ASCSIM_LINE) const {
        ascsim_scalar_write((*this)[offset].ref(), &value, line);
    }
    void SetSize(uint32_t elements) { bytes_ = uint64_t{elements} * sizeof(T); }
    void set(ascsim::Space space, uint64_t address, uint64_t bytes) { space_ = space, address_ = address, bytes_ = bytes; }
    ascsim::Ref ref() const { return {space_, ascsim::dtype_of<T>(), address_, bytes_}; }

private:
    ascsim::Space space_ = ascsim::Space::UB;
    uint64_t address_ = 0;
    uint64_t bytes_ = 0;
};

}  // namespace AscendC
