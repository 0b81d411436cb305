// A device of torch in simulated memory: what makes and copies tensors; other operators run on the CPU.
#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/InferSize.h>
#include <ATen/TensorUtils.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <c10/core/impl/alloc_cpu.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include "acl/acl.h"

namespace {

void check(aclError error) { TORCH_CHECK(error == ACL_SUCCESS, "ACL says ", error, ": ", aclGetRecentErrMsg()); }

struct Started {
    Started() { check(aclInit(nullptr)), check(aclrtSetDevice(0)); }
};

struct Memory final : c10::Allocator {
    static void give_back(void* p) {  // launches that are queued may still use it
        aclrtSynchronizeDevice();
        aclrtFree(p);
    }
    c10::DataPtr allocate(size_t bytes) override {
        static const Started started;
        void* p = nullptr;
        if (bytes != 0) check(aclrtMalloc(&p, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
        return {p, p, &give_back, c10::Device(c10::DeviceType::PrivateUse1, 0)};
    }
    c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
    void copy_data(void* to, const void* from, size_t bytes) const override { check(aclrtMemcpy(to, bytes, from, bytes, ACL_MEMCPY_DEVICE_TO_DEVICE)); }
} memory;

struct Guard final : c10::impl::DeviceGuardImplInterface {
    using Device = c10::Device;
    using Stream = c10::Stream;
    static Device one() { return Device(c10::DeviceType::PrivateUse1, 0); }
    c10::DeviceType type() const override { return c10::DeviceType::PrivateUse1; }
    Device exchangeDevice(Device d) const override { return setDevice(d), one(); }
    Device getDevice() const override { return one(); }
    // The device belongs to a thread, and autograd has threads of its own.
    void setDevice(Device d) const override { check(aclrtSetDevice(d.index() < 0 ? 0 : d.index())); }
    void uncheckedSetDevice(Device d) const noexcept override { setDevice(d); }
    Stream getStream(Device d) const override { return Stream(Stream::DEFAULT, d); }
    Stream exchangeStream(Stream) const override { return Stream(Stream::DEFAULT, one()); }
    c10::DeviceIndex deviceCount() const noexcept override { return 1; }
};

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> type, std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
    return at::detail::empty_generic(size, &memory, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), c10::dtype_or_default(type), format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> type, std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
    return at::detail::empty_strided_generic(size, stride, &memory, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), c10::dtype_or_default(type));
}

at::Tensor on_host(const at::Tensor& x) {
    if (x.is_cpu()) return x;
    check(aclrtSynchronizeDevice());
    const auto bytes = x.storage().nbytes();
    auto whole = at::empty({static_cast<int64_t>(bytes / x.element_size())}, x.options().device(at::kCPU));
    if (bytes != 0) check(aclrtMemcpy(whole.data_ptr(), bytes, x.storage().data(), bytes, ACL_MEMCPY_DEVICE_TO_HOST));
    return at::as_strided(whole, x.sizes(), x.strides(), x.storage_offset());
}

// Elements that a view does not have keep their values.
at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool) {
    auto target = on_host(to);
    target.copy_(on_host(from));
    if (to.is_cpu()) return to;
    const auto bytes = to.storage().nbytes();
    if (bytes != 0) check(aclrtMemcpy(to.storage().mutable_data(), bytes, target.storage().data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE));
    return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
    const_cast<at::Tensor&>(to).unsafeGetTensorImpl()->set_sizes_contiguous(from.sizes());
    const auto bytes = from.numel() * from.element_size();
    if (static_cast<int64_t>(to.storage().nbytes()) < bytes) to.storage().unsafeGetStorageImpl()->set_data_ptr_noswap(memory.allocate(bytes)), to.storage().unsafeGetStorageImpl()->set_nbytes(bytes);
    return copy_from(from, to, false);
}

at::Tensor strided(const at::Tensor& x, at::IntArrayRef size, at::IntArrayRef stride, std::optional<int64_t> offset) {
    auto view = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(x.storage()), x.key_set(), x.dtype());
    view.unsafeGetTensorImpl()->set_sizes_and_strides(size, stride, offset.value_or(x.storage_offset()));
    return view;
}

at::Tensor view(const at::Tensor& x, at::IntArrayRef size) {
    const auto sizes = at::infer_size(size, x.numel());
    const auto strides = at::detail::computeStride(x.sizes(), x.strides(), sizes);
    TORCH_CHECK(strides.has_value(), "no view of these sizes");
    return strided(x, sizes, *strides, x.storage_offset());
}

at::Scalar local_scalar(const at::Tensor& x) { return on_host(x).item(); }

struct Hooks final : at::PrivateUse1HooksInterface {
    bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
    bool isBuilt() const override { return true; }
    bool isAvailable() const override { return true; }
} hooks;

const bool is_registered = (at::RegisterPrivateUse1HooksInterface(&hooks), true);

void on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) { at::native::cpu_fallback(op, stack); }

}  // namespace

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) { library.fallback(torch::CppFunction::makeFromBoxedFunction<&on_cpu>()); }
TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
    library.impl("empty.memory_format", &empty);
    library.impl("empty_strided", &empty_strided);
    library.impl("_copy_from", &copy_from);
    library.impl("_copy_from_and_resize", &copy_from_and_resize);
    library.impl("as_strided", &strided);
    library.impl("view", &view);
    library.impl("_local_scalar_dense", &local_scalar);
}
