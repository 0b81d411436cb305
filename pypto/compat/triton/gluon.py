"""Gluon, Triton's second language, names layouts and memories of one GPU: its kernels are defined, not launched.

Packages import its modules and decorate kernels while they choose a device. All of that works, with the values and
types that both languages share. A launch, and a call of a name that a GPU has to itself, is an error that says why.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn

from pypto import language
from pypto.compat.triton import kernels, refused
from pypto.compat.triton.compiler import must_use_result

Names = dict[str, Any]
_WAY: Final = "Gluon kernels are written for the layouts of one GPU; use the package's kernel under `triton.jit`"

# fmt: off
_LAYOUTS: Final = (
    "AutoLayout BlockedLayout SliceLayout DistributedLinearLayout DotOperandLayout NVMMADistributedLayout "
    "NVMMASharedLayout SwizzledSharedLayout PaddedSharedLayout SharedLinearLayout CoalescedLayout"
)
_LANGUAGE: Final = (
    "allocate_shared_memory shared_memory_descriptor shared_memory_descriptor_type distributed_type convert_layout "
    "set_auto_layout to_linear_layout bank_conflicts dot_fma fp4_to_fp barrier thread_barrier warp_specialize "
    "num_warps num_ctas aggregate_replace atomic_load atomic_store atomic_poll inline_asm expect_zero CachePolicy "
    "base_type base_value tuple_type"
)
# The modules of makes of GPUs.
_NVIDIA: Final = (
    "async_copy async_store mbarrier mma_v2 cluster tma fence_async_shared warpgroup_mma warpgroup_mma_init "
    "warpgroup_mma_wait"
)
_BLACKWELL: Final = (
    "allocate_tensor_memory get_tmem_reg_layout clc tensor_memory_descriptor tensor_memory_descriptor_type "
    "TensorMemoryLayout TensorMemoryScalesLayout tcgen05_commit tcgen05_copy tcgen05_mma tcgen05_mma_scaled"
)
_AMD: Final = (
    "buffer_load buffer_store buffer_atomic_add buffer_atomic_and buffer_atomic_min buffer_atomic_max buffer_atomic_or "
    "buffer_atomic_xor mfma mfma_scaled wmma wmma_scaled async_copy tdm mbarrier cluster scaled_upcast "
    "scaled_downcast load_shared_fp4_repacked get_mfma_scale_layout get_wmma_scale_layout PartitionedSharedLayout "
    "compute_efficient_padded_shared_layout"
)
_OF_MAKES: Final = {
    "nvidia": (("ampere", "hopper", "blackwell"), f"{_NVIDIA} {_BLACKWELL}", ""),
    "amd": (("cdna3", "cdna4", "gfx1250", "rdna3", "rdna4"), _AMD, "AMDMFMALayout AMDWMMALayout warp_pipeline_stage"),
}
# fmt: on


class GluonJITFunction(kernels.JITFunction):
    """A kernel in Gluon: decorators find its parameters and its text. Its launch is refused."""

    def run(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"{self.fn.__qualname__}: {_WAY}")

    __call__ = __getitem__ = run


def jit(fn: Callable[..., Any] | None = None, **_: Any) -> Any:
    """`gluon.jit`, with or without options."""
    return GluonJITFunction if fn is None else GluonJITFunction(fn)


def modules(core: Names) -> dict[str, Names]:
    """The modules below `triton.experimental`; `core` are the names of `triton.language`."""
    root = "triton.experimental.gluon"
    tree: dict[str, Names] = {
        "triton.experimental": {},
        root: {
            "jit": jit, "GluonJITFunction": GluonJITFunction, "constexpr_function": language.constexpr_function,
            "aggregate": language.aggregate, "must_use_result": must_use_result,
            **refused.absent("GluonASTSource", _WAY)},
        f"{root}.language": {**core, **refused.absent(f"{_LAYOUTS} {_LANGUAGE}", _WAY)},
        f"{root}.language.extra": {},
        f"{root}.language.extra.libdevice": refused.absent(" ".join(language.libdevice.__all__), _WAY),
    }  # fmt: skip
    descriptors = refused.absent("TensorDescriptor TensorDescriptorIm2Col", _WAY)
    for make, (chips, names, common) in _OF_MAKES.items():
        tree[f"{root}.{make}"] = {}
        tree[f"{root}.language.{make}"] = refused.absent(common, _WAY)
        for chip in chips:
            tree[f"{root}.{make}.{chip}"] = descriptors
            tree[f"{root}.language.{make}.{chip}"] = refused.absent(names, _WAY)
    return tree
