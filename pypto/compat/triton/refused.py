"""Names of Triton that mean nothing on a CPU, or say how one GPU works: errors that say what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn

from pypto.ops.public import Refused


def refuse(names: str, way: str) -> dict[str, Refused]:
    return {name: Refused(f"tl.{name}", way) for name in names.split()}


class Absent(Refused):
    """A name of the host's side that is not there: called, it says why."""

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"{self.__name__}: {self.way}")

    def __getattr__(self, name: str) -> Absent:
        if name.startswith("__") or "way" not in vars(self):
            raise AttributeError(name)
        return Absent(f"{self.__name__}.{name}", self.way)


def absent(names: str, way: str) -> dict[str, Absent]:
    return {name: Absent(name, way) for name in names.split()}


def builtin(fn: Callable[..., Any]) -> Refused:
    """A function under Triton's own decorator speaks to its compiler, so kernels cannot call it here."""
    way = "it is built on the inside of Triton's compiler; write it with `triton.jit`, out of public names"
    return Refused(fn.__name__, way)


def extern(fn: Callable[..., Any]) -> Refused:
    way = "it calls a library of machine code for GPUs; write it with the functions of `tl.extra.libdevice`"
    return Refused(fn.__name__, way)


def is_builtin(fn: Any) -> bool:
    return isinstance(fn, Refused)


NAMES: Final = {
    **refuse("async_task", "warps of one GPU program do different work in it; write the parts one after the other"),
    **refuse("extern_elementwise dispatch", "it calls a library of machine code for GPUs; use `tl.extra.libdevice`"),
    **refuse("function_type base_type base_value slice_type tuple_type tensor_descriptor_type",
             "it is a class of Triton's compiler; kernels need the values, not the classes"),
    "builtin": builtin, "extern": extern, "is_builtin": is_builtin,
}  # fmt: skip

INSIDE: Final = refuse(
    "binary_op_type_legalization _reduce_with_indices _shape_check_impl _unwrap_shape _unwrap_iterable",
    "it belongs to the inside of Triton's compiler; use the public names of `triton.language`",
)

ASYNC: Final = absent(
    "AsyncCompileMode FutureKernel",
    "kernels are compiled when they are first launched; call `kernel.warmup(...)` ahead of time",
)

# Of the modules `triton`, `triton.testing` and `triton.language.math`: names of GPUs, and of Triton's own inside.
ELSEWHERE: Final = {
    "triton": {
        **ASYNC,
        **refuse("impl", "it is the inside of Triton 2.1's compiler"),
    },
    "triton.testing": {
        **refuse("do_bench_proton do_bench_cudagraph_proton cublas cuda_graph_without_gc",
                 "it belongs to GPUs; measure with `triton.testing.do_bench`"),
        **refuse("nvsmi_attr set_gpu_clock", "there is no GPU to ask or to set"),
    },
    "triton.language.math": refuse("libdevice_path", "mathematics is compiled with the kernel, not linked from a file"),
    "triton.language": refuse("ir triton", "it is the inside of Triton 2.1's compiler; import `triton` itself"),
}  # fmt: skip

# Of `triton.language.extra.cann.extension`, the dialect of Triton-Ascend.
OF_ASCEND: Final = {
    name: Refused(f"extension.{name}", way)
    for names, way in (
        ("sub_vec_id sub_vec_num", "which core runs a part of a program is the compiler's choice; use `tl.program_id`"),
        ("sync_block_all sync_block_set sync_block_wait debug_barrier", "cores are synchronized by the compiler"),
        ("insert_slice extract_slice get_element", "load and store the part of the array in its place"),
        (
            "index_select index_put gather_out_to_ub scatter_ub_to_out index_select_simd",
            "load or store with a tile of pointers",
        ),
        ("fixpipe alloc to_buffer to_tensor copy subview scope", "buffers of a core are allocated by the compiler"),
        ("custom custom_semantic register_custom_op", "write the function with `triton.jit`"),
        ("sort flip", "use `tl.sort` and `tl.flip`"),
        ("cast", "use `x.to(dtype)`"),
    )
    for name in names.split()
}

OF_GPUS: Final = {
    **refuse("globaltimer", "programs have no clock; measure launches with `triton.testing.do_bench`"),
    **refuse("smid", "programs have no processor of their own; use `tl.program_id`"),
    **refuse("convert_custom_float8_sm70 convert_custom_float8_sm80 convert_custom_float8",
             "it is for the compiler alone; cast with `x.to(dtype)`"),
}  # fmt: skip
