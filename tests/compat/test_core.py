"""What Triton's own tests use: names around the language, and forms of the language that other code seldom has."""

from __future__ import annotations

import importlib
import os
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from pypto.errors import Diagnostic, PyptoError


@pytest.fixture(scope="module")
def kernels(triton: ModuleType) -> Any:
    return importlib.import_module("tests.compat.kernels_core")


def named(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


# --- the language -----------------------------------------------------------------------------------------------------


def rewritten(kernels: Any, triton: Any, text: str) -> Any:
    """The kernel `expression` with an expression in it."""
    kernel = triton.JITFunction(kernels.expression.fn)
    kernel._unsafe_update_src(kernel.src.replace("EXPRESSION", text))
    return kernel


def test_source_is_replaced(kernels: Any, triton: Any) -> None:
    x, z = np.arange(8, dtype=np.int32), np.zeros(8, np.int32)
    rewritten(kernels, triton, "a * 3")[(1,)](z, x, N=8)
    np.testing.assert_array_equal(z, x * 3)
    other = rewritten(kernels, triton, "a + 5")
    other.ours.checked[(1,)](z, x, N=8)
    np.testing.assert_array_equal(z, x + 5)
    with pytest.raises(Diagnostic, match=r"(?s)`nothing` is not defined.*tl\.store\(z \+ offsets, nothing\)"):
        rewritten(kernels, triton, "nothing")[(1,)](z, x, N=8)


@pytest.mark.parametrize(
    ("text", "kind", "wanted"),
    [
        ("a & a", np.float32, "invalid operands of type f32"),
        ("~(a < 1) | a", np.float32, "`|`: invalid operands of type"),
        ("a % a.to(tl.uint32)", np.int32, r"Cannot use .* because they have different signedness"),
        ("a[a]", np.int32, "unsupported tensor index"),
        ("a // a.to(tl.uint32)", np.int32, r"Cannot use .* because they have different signedness"),
    ],
)
def test_texts_of_errors(kernels: Any, triton: Any, text: str, kind: Any, wanted: str) -> None:
    x = np.ones(8, kind)
    with pytest.raises(triton.TritonError, match=wanted.replace("|", r"\|")):
        rewritten(kernels, triton, text)[(1,)](x.copy(), x, N=8)


def test_pointers_as_blocks(kernels: Any) -> None:
    out, x = np.zeros(2, np.float32), np.arange(1, 5, dtype=np.float32)
    kernels.pointer_blocks[(1,)](out, x, 10)
    np.testing.assert_array_equal(out, [11, 4])


def test_tuples_of_one_pointer(kernels: Any) -> None:
    out, x = np.zeros(8, np.float32), np.arange(8, dtype=np.float32)
    kernels.pointers_in_tuples[(1,)](out, x, N=8)
    np.testing.assert_array_equal(out, x * 2 + 1)


def test_values_after_a_loop_that_runs(kernels: Any) -> None:
    out, x = np.zeros(4, np.int32), np.arange(12, dtype=np.int32)
    kernels.after_loop[(1,)](out, x, N=3)
    np.testing.assert_array_equal(out, x[8:] * 2 + 2)
    with pytest.raises(Diagnostic, match="`row` may be unassigned"):
        kernels.after_loop[(1,)](out, x, N=0)


@pytest.mark.parametrize("n", [4, 8])
def test_products_of_stacks_of_stacks(kernels: Any, n: int) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((2, 2, *shape)).astype(np.float32) for shape in ((4, 8), (8, n)))
    out = np.zeros((2, 2, 4, n), np.float32)
    kernels.stacks[(1,)](out, x, y, A=2, B=2, M=4, N=n, K=8)
    np.testing.assert_allclose(out, x @ y + (n == 8), atol=1e-5)


def test_types_of_constants(kernels: Any, triton: Any) -> None:
    out = np.zeros(1, np.int32)
    kernels.kinds[(1,)](out, 3, 4)
    assert out[0] == 1 and triton.language.constexpr(3).type == triton.language.constexpr_type(3)
    with pytest.raises(Diagnostic, match=r"(?s)`tl\.base_value`.*help: "):
        kernels.asks_for_the_inside[(1,)](out, 4)


def test_integers_as_masks_of_atomics(kernels: Any) -> None:
    out, mask = np.zeros(8, np.int32), np.array([1, 0, 2, 0, -3, 0, 0, 1], np.int32)
    kernels.masked_atomics[(1,)](out, mask, N=8)
    np.testing.assert_array_equal(out, [9, 0, 2, 0, 2, 0, 0, 2])


def test_a_seed_is_an_integer(kernels: Any) -> None:
    drawn = np.zeros(16, np.float32)
    kernels.uniform[(1,)](drawn, 5, N=16)
    assert len({*drawn}) == 16
    with pytest.raises(Diagnostic, match="a seed is an integer"):
        kernels.uniform[(1,)](drawn, 5.75, N=16)


def test_where_of_pointers(kernels: Any) -> None:
    x, y, out = np.arange(4, dtype=np.int64), np.arange(4, 8), np.zeros(4, np.int64)
    for chosen, wanted in ((1, x), (0, y)):
        kernels.of_pointers[(1,)](out, np.array([chosen], np.int8), x, y)
        np.testing.assert_array_equal(out, wanted)


def test_arithmetic_of_bools_wraps(kernels: Any) -> None:
    out, x, y = np.zeros(4, np.int32), np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    kernels.of_bools[(1,)](out, x, y)
    np.testing.assert_array_equal(out, [0, 3, 3, 4])


def test_magnitude_of_every_code(kernels: Any) -> None:
    out, x = np.zeros(256, np.uint8), np.arange(256, dtype=np.uint8)
    kernels.magnitude[(1,)](out, x, N=256)
    np.testing.assert_array_equal(out, x & 127)


def test_types_of_assigned_constants(kernels: Any) -> None:
    assert kernels.assigned_constants.warmup(2.5, grid=(1,)).program is not None


@pytest.mark.parametrize("up", [0, 1])
def test_steps_of_a_sort(kernels: Any, up: int) -> None:
    x, out = np.random.default_rng(up).permutation(32).astype(np.float32), np.zeros(32, np.float32)
    kernels.bitonic[(1,)](out, x, N=32, UP=up)
    np.testing.assert_array_equal(out, np.sort(x)[:: -1 if up else 1])


def test_combinations_of_the_standard_library(kernels: Any) -> None:
    x, out = np.array([3, 7, 7, 1], np.float32), np.zeros(1, np.int32)
    kernels.best_of[(1,)](out, x, N=4)
    assert out[0] == 1


def test_parts_of_any_size(kernels: Any) -> None:
    make = named("triton.tools.ragged_tma", "create_ragged_descriptor")
    x, y = np.arange(40, dtype=np.float32).reshape(10, 4), np.zeros((10, 4), np.float32)
    kernels.doubled_part[(1,)](make(x, [4, 4]), make(y, [4, 4]), 2, 6, B=4)
    wanted = np.where((np.arange(10)[:, None] >= 2) & (np.arange(10)[:, None] < 8), 3 * x, 0)
    np.testing.assert_array_equal(y, wanted)
    with pytest.raises(AssertionError, match="no last dimension"):
        make(x, [4, 4], ragged_dim=1)


@pytest.mark.parametrize(("name", "most"), [("float8e4nv", 448), ("float8e5", 57344), ("float8e4b8", 240)])
def test_casts_to_float8_saturate(kernels: Any, triton: Any, name: str, most: float) -> None:
    x = np.array([1.0, 1e6, -1e6, np.inf, -np.inf, np.nan, 500000.0, -0.5], np.float32)
    dtype, out = getattr(triton.language, name), np.zeros(8, np.float32)
    stored = np.zeros(8, dtype.numpy)
    kernels.to_float8[(1,)](out, stored, x, N=8, TO=dtype)
    wanted = [1, most, -most, most, -most, np.nan, most, -0.5]
    np.testing.assert_array_equal(out, wanted)
    np.testing.assert_array_equal(stored.astype(np.float32), wanted)


def test_isinstance_of_types(kernels: Any) -> None:
    for nothing in (None, 1, 2):
        kernels.pointers_by_type[(1,)](nothing)
    x = np.array([100], np.int32)
    kernels.pointers_by_type[(1,)](x)
    assert x[0] == 42


# --- names ------------------------------------------------------------------------------------------------------------


def test_names_of_types(triton: Any) -> None:
    tl = triton.language
    assert (tl.uint32.name, tl.float16.name, tl.bfloat16.name, tl.int1.name) == ("uint32", "fp16", "bf16", "int1")
    assert tl.dtype.SINT_TYPES == ["int8", "int16", "int32", "int64"]
    assert tl.dtype.UINT_TYPES == ["int1", "uint8", "uint16", "uint32", "uint64"]
    assert {*tl.dtype.STANDARD_FP_TYPES} == {"fp16", "bf16", "fp32", "fp64"} < {*tl.dtype.FP_TYPES}
    assert all(tl.dtype(name).name == name for name in tl.dtype.FP_TYPES + tl.dtype.SINT_TYPES + tl.dtype.OTHER_TYPES)
    assert tl.dtype.is_dtype("fp16") and not tl.dtype.is_dtype("f16")
    assert tl.pointer_type(tl.float32).name == "pointer<fp32>" and tl.int8.get_int_min_value() == -128
    assert tl.block_type(tl.float16, [8, 4]).name == "<(8, 4), fp16>" and tl.uint8.get_int_max_value() == 255


def test_words_for_types(triton: Any) -> None:
    tl, words = triton.language, named("triton.runtime.jit", "type_canonicalisation_dict")
    assert (words["float16"], words["int32"], words["bool"], words["u8"]) == ("fp16", "i32", "u1", "u8")
    assert tl.str_to_ty(words["float8_e5m2"]) == tl.float8e5
    assert tl.str_to_ty("*fp32", None) == tl.pointer_type(tl.float32)
    assert tl.str_to_ty("constexpr", 3) == tl.constexpr_type(3)
    with pytest.raises(ValueError, match="'fp17' is no type"):
        tl.str_to_ty("fp17")
    assert named("triton._utils", "canonicalize_ptr_dtype")("torch.float32", True) == "*kfp32"
    assert named("triton._utils", "get_primitive_bitwidth")("bf16") == 16
    assert named("triton._utils", "find_paths_if")((1, (2, 3)), lambda path, x: x > 1) == [(1, 0), (1, 1)]
    assert named("triton._utils", "validate_block_shape")([4, 8]) == 32
    with pytest.raises(ValueError, match="must be a power of 2"):
        named("triton._utils", "validate_block_shape")([4, 6])


def test_knobs(triton: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = named("triton._internal_testing", "_fresh_knobs_impl")
    knobs, runtime = importlib.import_module("triton.knobs"), importlib.import_module("triton.knobs").runtime
    for given in ((monkeypatch, {"runtime"}), ({"runtime"},)):  # of Triton 3.4, and of later versions
        fresh, undo = saved(*given)
        assert fresh().runtime is runtime
        undo()
    fresh, undo = saved(monkeypatch)
    assert fresh().runtime is not runtime
    undo()
    assert knobs.runtime is runtime
    fresh, undo = saved()
    monkeypatch.setenv("TRITON_TEST_WORD", "b")
    try:
        knobs = fresh()
        assert not knobs.runtime.interpret and knobs.nvidia.no_such_knob is None
        with knobs.compilation.scope():
            with pytest.warns(UserWarning, match="has no effect in pypto: PYPTO_CACHE=off compiles anew"):
                knobs.compilation.always_compile = True
            assert os.environ["TRITON_ALWAYS_COMPILE"] == "1" and knobs.compilation.copy().always_compile
            assert not knobs.compilation.copy().reset().dump_ir
        assert "TRITON_ALWAYS_COMPILE" not in os.environ
        group = type("group", (knobs.base_knobs,), {
            "word": knobs.env_str("TRITON_TEST_WORD", "a"), "on": knobs.env_bool("TRITON_TEST_ON", True),
            "number": knobs.env_int("TRITON_TEST_NUMBER", 7)})()  # fmt: skip
        assert group.knobs == {"word": "b", "on": True, "number": 7}
        monkeypatch.setenv("TRITON_TEST_NUMBER", "x")
        with pytest.raises(RuntimeError, match="expected an integer"):
            _ = group.number
    finally:
        undo()


def test_hooks_are_called_in_order(triton: Any) -> None:
    chain, seen = named("triton.knobs", "HookChain")(reversed=True), []
    first, second = (lambda n=n: seen.append(n) for n in (1, 2))
    for hook in (first, second, first):
        chain.add(hook)
    chain()
    chain.remove(second)
    chain()
    assert seen == [2, 1, 1]


def test_helpers_of_tests(triton: Any) -> None:
    torch = pytest.importorskip("torch")
    helpers = importlib.import_module("triton._internal_testing")
    assert helpers.is_cpu() and not helpers.is_cuda() and not helpers.is_hip() and helpers.requires_tma is not None
    for name in (*helpers.dtypes_with_bfloat16, "bool"):
        x = helpers.numpy_random((3, 5), name)
        tensor = helpers.to_triton(x, "cpu", name)
        np.testing.assert_array_equal(helpers.to_numpy(tensor), x)
        assert helpers.torch_dtype_name(tensor.dtype) == name and x.all() == (name != "bool" or x.all())
    assert helpers.str_to_triton_dtype("float8_e5m2") == triton.language.float8e5
    assert helpers.unwrap_tensor(helpers.to_triton(np.ones(2, np.uint16), "cpu")).dtype == torch.int16
    assert isinstance(helpers.run_in_process(lambda: 1 // 0).exc, ZeroDivisionError)


def test_numbers_of_four_bits(triton: Any) -> None:
    torch = pytest.importorskip("torch")
    fp4 = named("triton.tools.mxfp", "MXFP4Tensor")
    every = fp4(data=torch.tensor([0.0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6]))
    assert every.data.tolist() == list(range(16))
    middles = fp4(data=torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 9.0, float("-inf"), float("nan")]))
    assert middles.to(torch.float32).tolist() == [0, 1, 1, 2, 2, 4, 4, 6, -6, 6]
    random = fp4(size=(5, 4)).random()
    packed = random.to_packed_tensor(dim=0)
    assert packed.shape == (3, 4) and packed[0, 1] == random.data[0, 1] | random.data[1, 1] << 4
    assert torch.equal(random.unpack_packed_tensor(packed, 0, (5, 4)), random.data)


def test_scales(triton: Any) -> None:
    torch = pytest.importorskip("torch")
    scales = named("triton.tools.mxfp", "MXScaleTensor")
    made = scales(data=torch.tensor([1.0, 3.0, 0.25, -1.0, float("inf")]))
    assert made.data.tolist() == [127, 128, 125, 255, 255] and made.to(torch.float32)[:3].tolist() == [1, 2, 0.25]
    random = scales(size=50).random(low=0.5, high=4).to(torch.float32)
    assert {*random.tolist()} <= {0.5, 1.0, 2.0, 4.0}


def test_filecheck_says_what_is_missing(kernels: Any) -> None:
    with pytest.raises(NotImplementedError, match="no IR of Triton's"):
        named("triton._filecheck", "filecheck_test")(kernels.uniform)()
    assert issubclass(named("triton.errors", "TritonError"), PyptoError)


def test_names_of_versions(triton: Any) -> None:
    def told(specialization: Any) -> str:
        return "_".join([specialization.signature["n"], *map(str, specialization.constants)])

    @triton.jit(repr=told)
    def kernel(n, one, x, B: triton.language.constexpr):  # type: ignore[name-defined]
        pass

    assert kernel.warmup(2**31, 1, np.zeros(1, np.float32), 4, grid=(1,)).name == "i64_one_B"
    assert kernel.warmup(2.0, 2, np.zeros(1, np.float32), 4, grid=(1,)).name == "fp32_B"


def test_levels_as_text(kernels: Any) -> None:
    handle = kernels.uniform[(1,)](np.zeros(4, np.float32), 1, N=4)
    assert "kernel @uniform" in handle.asm["ttir"] and "define void" in handle.asm["llir"]
    assert all(handle.asm.values()) and "amdgcn" in handle.asm and "spirv" not in handle.asm


def test_inside_of_the_runtime(triton: Any) -> None:
    mangle, memory = named("triton.runtime.jit", "mangle_type"), importlib.import_module("triton.runtime._allocation")
    x = np.zeros(1, np.float16)
    assert [mangle(v) for v in (x, 3, 2.0, True, 2**40, None)] == ["*fp16", "i32", "fp32", "u1", "i64", "constexpr"]
    assert named("triton.runtime.jit", "get_def_line_number")(["@jit\n", "def f():\n"], 7) == 8
    assert named("triton.runtime.jit", "get_def_col_number")("    def f(x):") == 5
    assert named("triton.runtime.cache", "_base32")("00ff") == "AD7Q"
    with pytest.raises(RuntimeError, match="no allocator was set"):
        memory._allocator.get()(8, 8, None)
    triton.set_allocator(len)
    assert memory._allocator.get() is len and not memory.has_profile_allocator()
    triton.set_allocator(memory.NullAllocator())
    with pytest.raises(NotImplementedError, match=r"IRSource: .*ASTSource"):
        named("triton.compiler", "IRSource")("x.ttir")
