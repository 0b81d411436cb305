"""Launches of Triton kernels inside of torch.compile, as functions of tensors: one for each kind that torch knows.

The kernels are those of torch's own tests, which its wheel has, and more of the same kinds. Run as a script under
``python -m pypto.compat.triton``, the file compares a backend's results with those of launches outside of graphs.
"""

# mypy: ignore-errors

from __future__ import annotations

import importlib
import logging
import sys
from types import SimpleNamespace

import pytest
import torch
import triton
import triton.language as tl

from tests.torch.user_kernels_more import (
    defaults_kernel,
    descriptor_kernel,
    dtype_kernel,
    globals_kernel,
    heuristic_kernel,
    hints_kernel,
    strided_kernel,
    tuned_by_hints_kernel,
    tuned_heuristic_kernel,
    tuned_in_place_kernel,
    tuned_sum_kernel,
    two_outputs_kernel,
)

# Of what the file of kernels imports, only these answers matter; the rest needs packages for tests of GPUs.
GPUS = SimpleNamespace(HAS_CUDA_AND_TRITON=False, HAS_GPU=False, HAS_XPU_AND_TRITON=False)
with pytest.MonkeyPatch.context() as patch:
    patch.setitem(sys.modules, "torch.testing._internal.inductor_utils", GPUS)
    theirs = importlib.import_module("torch.testing._internal.triton_utils")


def cdiv_grid(n, name="BLOCK_SIZE"):
    return lambda meta: (triton.cdiv(n, meta[name]),)


def plain(x, y):
    out = torch.zeros_like(x)
    theirs.add_kernel[cdiv_grid(x.numel())](x.sin(), y, out, x.numel(), BLOCK_SIZE=16)
    return out + 1


def positional(x, y):
    out = torch.empty_like(x)
    theirs.add_kernel[(x.numel(),)](x, y, out, x.numel(), 16)
    return out.relu()


def run_by_keywords(x, y):
    out = torch.empty_like(x)
    theirs.sub_kernel[(x.numel(),)](in_ptr1=y, in_ptr0=x, n_elements=x.numel(), BLOCK_SIZE=16, out_ptr=out)
    return out


def optional(x, y):
    first, second = torch.empty_like(x), torch.empty_like(x)
    grid = cdiv_grid(x.numel())
    theirs.add_kernel_with_optional_param[grid](x, y, first, x.numel(), ARGS_PASSED="two", BLOCK_SIZE=16)
    theirs.add_kernel_with_optional_param[grid](x, None, second, x.numel(), ARGS_PASSED="one", BLOCK_SIZE=16)
    return first, second


def none_and_one(x, y):
    out = torch.empty_like(x)
    theirs.add_kernel_with_none_param_and_equal_to_1_arg[cdiv_grid(x.numel())](
        x, None, out, x.numel(), x.stride(0), ARGS_PASSED="one", BLOCK_SIZE=32
    )
    return out + y


def autotuned(x, y):
    out = torch.zeros_like(x)
    theirs.add_kernel_autotuned[cdiv_grid(x.numel())](x, y, out, x.numel())
    theirs.sub_kernel_autotuned[cdiv_grid(x.numel())](out, y * 2, out, x.numel())
    return out


def autotuned_odd_order(x, y):
    out = torch.empty_like(x)
    theirs.add_kernel_autotuned_weird_param_order[(triton.cdiv(x.numel(), 16),)](
        in_ptr0=x, in_ptr1=y, n_elements=x.numel(), out_ptr=out
    )
    return out * 2


def autotuned_2d(x, y):
    x, y = x[:16].reshape(4, 4), y[:16].reshape(4, 4)
    out = torch.zeros_like(x)

    def grid(meta):
        return triton.cdiv(4, meta["BLOCK_SIZE_X"]), triton.cdiv(4, meta["BLOCK_SIZE_Y"])

    theirs.add_kernel_2d_autotuned[grid](x, y, out, 4, 4)
    return out


def autotuned_pruned(x, y):
    out = torch.zeros_like(x)
    theirs.add_kernel_autotuned_with_unsupported_args[cdiv_grid(x.numel())](x, y, out, x.numel())
    return out


def restored(x, y):
    z = x * 2
    tuned_in_place_kernel[cdiv_grid(x.numel(), "BLOCK")](z, x.numel())
    tuned_in_place_kernel[cdiv_grid(x.numel(), "BLOCK")](z, x.numel())
    return z + y


def reset(x, y):
    total = torch.zeros(1)
    tuned_sum_kernel[cdiv_grid(x.numel(), "BLOCK")](x, total, x.numel())
    return total + y


def hints_tuned(x, y):
    out = torch.empty_like(x)
    tuned_by_hints_kernel[cdiv_grid(x.numel(), "BLOCK")](x, out, x.numel(), BLOCK=32)
    return out + y


def special_keywords(x, y):
    out = torch.zeros_like(x)
    theirs.add_kernel_autotuned[cdiv_grid(x.numel())](x, y, out, x.numel(), num_warps=8, num_stages=3)
    theirs.add_kernel[cdiv_grid(x.numel())](out, y, out, x.numel(), BLOCK_SIZE=16, num_warps=2)
    return out


def special_parameters(x, y):
    out = torch.zeros_like(x)
    hints_kernel[cdiv_grid(x.numel(), "BLOCK")](x, out, x.numel(), BLOCK=64, num_warps=4, num_stages=3)
    return out + y


def heuristic(x, y):
    out = torch.empty_like(x)
    heuristic_kernel[cdiv_grid(x.numel(), "BLOCK")](x, out, x.numel(), BLOCK=16)
    return out + y


def tuned_heuristic(x, y):
    out = torch.empty_like(x)
    tuned_heuristic_kernel[cdiv_grid(x.numel(), "BLOCK")](x, out, x.numel())
    return out + y


def in_place(x, y):
    theirs.mul2_inplace_kernel[cdiv_grid(x.numel())](x, x.numel(), BLOCK_SIZE=16)
    return x + y


def in_place_of_view(x, y):
    z = x + 1
    part = z[5:37]
    theirs.mul2_inplace_kernel[(2,)](part, 32, BLOCK_SIZE=16)
    part += 3
    theirs.mul2_inplace_kernel[(1,)](z.view(-1)[:16], 16, BLOCK_SIZE=16)
    return z * y


def in_place_of_strided_view(x, y):
    z = x[:64].reshape(8, 8) + 1
    part, column = z[::2, 1:5], y[3:60:7]
    before = part.sum()
    strided_kernel[(4,)](part, part.stride(0), part.stride(1), COLUMNS=4)
    strided_kernel[(1,)](column, 0, column.stride(0), COLUMNS=8)
    return z, part * before, y.sum()


def defaults(x, y):
    out, other = torch.empty_like(x), torch.empty_like(y)
    defaults_kernel[cdiv_grid(x.numel(), "BLOCK")](x, out, x.numel(), BLOCK=16)
    defaults_kernel[cdiv_grid(x.numel(), "BLOCK")](y, other, x.numel(), 1, BLOCK=32, FACTOR=3)
    return out, other


def reused_buffers(x, y):
    for _ in range(4):
        out = torch.empty_like(x)
        theirs.mul2_kernel[(x.numel(),)](in_ptr0=x, out_ptr=out, n_elements=x.numel(), BLOCK_SIZE=1)
        x = out
    return x + y


def calls_others(x, y):
    out, x = torch.empty_like(x), x.clone()
    theirs.indirection_kernel[(1,)](x, out, x.numel(), BLOCK_SIZE=128, ACTIVATION="mul2_inplace_kernel")
    globals_kernel[cdiv_grid(x.numel(), "BLOCK")](out, x, x.numel(), BLOCK=16)
    return x + y, out


def imported(x, y):
    out = torch.zeros_like(x)
    theirs.add_kernel_with_import[cdiv_grid(x.numel())](x, y, out, x.numel(), BLOCK_SIZE=16)
    return out


def scaled(x, y):
    out = torch.zeros_like(x)
    theirs.add_kernel_with_scaling[cdiv_grid(x.numel())](x, y, out, x.numel(), 0.5, BLOCK_SIZE=16)
    theirs.add_kernel_with_scaling[cdiv_grid(x.numel())](x, out, out, x.numel(), x.numel(), BLOCK_SIZE=16)
    return out


def strided(x, y):
    x = x[:64].reshape(8, 8)[::2]
    out = torch.empty(4, 8)
    theirs.double_strided_kernel[(2, 2)](x, out, x.stride(0), out.stride(0), X_BLOCK_SIZE=4, Y_BLOCK_SIZE=2)
    return out, y + 1


def block_pointers(x, y):
    out, second = torch.empty_like(x), torch.empty_like(x)
    theirs.add_kernel_with_block_ptr[cdiv_grid(x.numel())](x, y, out, x.numel(), BLOCK_SIZE=16)
    theirs.kernel_with_block_ptr_2d[cdiv_grid(x.numel())](out, second, x.numel(), BLOCK_SIZE=16)
    return second


def descriptors(x, y):
    x = x[:64].reshape(8, 8) + 1
    out = torch.empty_like(x)
    descriptor_kernel[lambda meta: (triton.cdiv(8, meta["BLOCK"]), 2)](x, out, 8, 8, BLOCK=4)
    return out, y


def conditional(x, y):
    out = torch.empty_like(x)
    theirs.cond_op_kernel[cdiv_grid(x.numel())](x, y, out, x.numel(), BLOCK_SIZE=16)
    return out


def atomic(x, y):
    out = torch.ones_like(x)
    theirs.atomic_add_kernel[cdiv_grid(x.numel())](x, y, out, x.numel(), BLOCK_SIZE=16)
    return out


def loops(x, y):
    out = torch.empty_like(x)
    theirs.add_4_times_kernel[cdiv_grid(x.numel())](x, y, out, x.numel(), BLOCK_SIZE=16)
    theirs.add_kernel_out_of_order_fn2[cdiv_grid(x.numel())](x, out, x.numel(), out, BLOCK_SIZE=16)
    return out


def docstrings(x, y):
    outs = [torch.empty(20) for _ in range(3)]
    for name, out in zip(("docstring_double_quotes", "docstring_single_quotes"), outs, strict=False):
        getattr(theirs, f"kernel_with_{name}")[(2,)](out, 20, BLOCK_SIZE=16)
    theirs.kernel_with_backslash_in_docstring[(2,)](outs[2], 20, BLOCK_SIZE=16)
    return *outs, x + y


def booleans(x, y):
    outs = [torch.zeros_like(x) for _ in range(3)]
    grid = cdiv_grid(x.numel())
    theirs.add_kernel_with_boolean_param[grid](x, y, outs[0], x.numel(), add_xy=True, BLOCK_SIZE=16)
    theirs.add_kernel_with_boolean_param[grid](x, y, outs[1], x.numel(), add_xy=False, BLOCK_SIZE=16)
    theirs.masked_add_kernel_with_bool_tensor[grid](x, y, x > 0, outs[2], x.numel(), BLOCK_SIZE=16)
    return outs


def dtypes(x, y):
    single, half = torch.empty_like(x), torch.empty_like(x, dtype=torch.bfloat16)
    dtype_kernel[cdiv_grid(x.numel(), "BLOCK")](x, single, tl.float32, x.numel(), BLOCK=16)
    dtype_kernel[cdiv_grid(x.numel(), "BLOCK")](y, half, tl.bfloat16, x.numel(), BLOCK=16)
    return single, half


def several_outputs(x, y):
    first, second = torch.empty_like(x), torch.empty_like(x)
    two_outputs_kernel[cdiv_grid(x.numel(), "BLOCK")](x, first, second, x.numel(), BLOCK=16)
    return first * second + y


def three_dimensions(x, y):
    out = torch.empty_like(x)
    theirs.add_kernel[(x.numel(), 1, 1)](x, y, out, x.numel(), BLOCK_SIZE=2)
    theirs.add_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK_SIZE"]), 1)](
        out, y, out, x.numel(), BLOCK_SIZE=8
    )
    return out


@torch.library.triton_op("pypto_tests::added", mutates_args={})
def added(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    torch.library.wrap_triton(theirs.add_kernel)[cdiv_grid(x.numel())](x, y, out, x.numel(), 16)
    return out


@torch.library.triton_op("pypto_tests::doubled_", mutates_args={"x"})
def doubled_(x: torch.Tensor) -> None:
    torch.library.wrap_triton(theirs.mul2_inplace_kernel)[cdiv_grid(x.numel())](x, x.numel(), 16)


@torch.library.triton_op("pypto_tests::tuned", mutates_args={})
def tuned(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    torch.library.wrap_triton(theirs.add_kernel_autotuned)[cdiv_grid(x.numel())](x, y, out, x.numel())
    return out


added.register_autograd(lambda context, grad: (grad, grad))


def operator(x, y):
    return added(x, y) * 2


def operator_in_place(x, y):
    z = x + 1
    doubled_(z)
    return z + y


def operator_tuned(x, y):
    return tuned(x.cos(), y) - 1


CASES = SimpleNamespace(**{
    f.__name__: f for f in (
        plain, positional, run_by_keywords, optional, none_and_one, autotuned, autotuned_odd_order, autotuned_2d,
        autotuned_pruned, restored, reset, hints_tuned, special_keywords, special_parameters, heuristic,
        tuned_heuristic, in_place, in_place_of_view, in_place_of_strided_view, defaults, reused_buffers, calls_others,
        imported, scaled, strided,
        block_pointers, descriptors, conditional, atomic, loops, docstrings, booleans, dtypes, several_outputs,
        three_dimensions, operator, operator_in_place, operator_tuned,
    )
})  # fmt: skip


def failures(backend, dynamic, names):
    """What is wrong with launches in graphs of a backend: none, if each function computes what it does without."""
    logging.disable(logging.WARNING)
    torch._inductor.config.unsafe_ignore_unsupported_triton_autotune_args = True
    options = {"cpp_wrapper": True} if backend.endswith("+cpp") else None
    for name in names or vars(CASES):
        torch._dynamo.reset()
        torch.manual_seed(0)
        x, y = torch.randn(100), torch.randn(100)
        function = getattr(CASES, name)
        wanted = function(x.clone(), y.clone())
        given = {
            "backend": backend.removesuffix("+cpp"),
            "dynamic": dynamic,
            **({"options": options} if options else {}),
        }
        try:
            found = torch.compile(function, fullgraph=True, **given)(x, y)
            torch.testing.assert_close(found, wanted)
        except Exception as error:
            yield f"{name}: {type(error).__name__}: {error}"


def main(backend, dynamic, *names):
    wrong = list(failures(backend, dynamic == "dynamic", names))
    print("\n".join(wrong) or f"{len(names or vars(CASES))} right")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
