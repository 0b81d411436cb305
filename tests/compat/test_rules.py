"""Under `triton.jit` the rules are Triton's, where they are less strict than ours."""

from __future__ import annotations

import importlib
import inspect
import warnings
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import pytest

from pypto.errors import Diagnostic, PyptoWarning


@pytest.fixture(scope="module")
def kernels(triton: ModuleType) -> Any:
    return importlib.import_module("tests.compat.kernels_rules")


def line(size: int) -> tuple[Any, Any]:
    return np.arange(size, dtype=np.float32), np.zeros(size, np.float32)


def test_a_store_into_what_autograd_records_is_a_warning(kernels: Any) -> None:
    torch = pytest.importorskip("torch")
    x, out = torch.arange(8.0), torch.nn.Parameter(torch.zeros(8))
    for _ in range(2):
        out.data.zero_()
        with pytest.warns(PyptoWarning, match=r"\[E315\] double writes to `out`, a tensor that requires grad"):
            kernels.double[(1,)](x, out, N=8)
        assert out.tolist() == [2.0 * n for n in range(8)]


def test_split_k_in_float16_agrees(kernels: Any, triton: Any) -> None:
    """The atomic sums of split-K leave small elements in the noise of the array, so that stores of them do not show."""
    generator = np.random.default_rng(0)
    a = generator.standard_normal((16, 512)).astype(np.float16)
    b = generator.standard_normal((512, 64)).astype(np.float16)
    c = np.zeros((16, 64), np.float16)
    configs = [triton.Config({"BLOCK": block, "SPLIT": split}) for split in (1, 2) for block in (32, 64)]
    tuned = triton.autotune(configs, key=["K"], reset_to_zero=["c"])(kernels.matmul)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tuned[lambda meta: (meta["SPLIT"],)](a, b, c, K=512, N=64)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64), rtol=2e-2, atol=0.1)
    assert {row.status for row in tuned.tuning_report().sections[0].rows} <= {"ok", "equal"}


def test_configurations_that_disagree_are_a_warning(kernels: Any, triton: Any) -> None:
    x, out = line(64)
    tuned = triton.autotune([triton.Config({"BLOCK": n}) for n in (16, 32, 64)], key=[])(kernels.part)
    with pytest.warns(PyptoWarning, match=r"\[E321\] part: its configurations compute different things"):
        tuned[(1,)](x, out)
    np.testing.assert_array_equal(out, 2 * x)  # of the configurations, the one that stores most
    assert tuned.best_config.kwargs == {"BLOCK": 64}


def test_pointers_in_a_tuple_are_moved(kernels: Any) -> None:
    x, out = line(8)
    kernels.steps[(1,)](x, out)
    np.testing.assert_array_equal(out, 2 * x)


def test_arguments_that_are_one_are_constants_where_code_needs_them(kernels: Any) -> None:
    x, out = line(8)
    kernels.ones[(1,)](x, out, 1, 1, 5)
    np.testing.assert_array_equal(out, [5, 7, 9, 11, 7, 7, 1, 0])
    kernels.ones[(1,)](x, out, 1, 1, 1)  # of `other` the code needs no constant
    np.testing.assert_array_equal(out, [1, 3, 5, 7, 7, 7, 1, 0])
    assert len(kernels.ones.ours.specializations) == 1
    with pytest.raises(Diagnostic, match="Mismatched type for value"):
        kernels.ones[(1,)](x, out, 1, 2, 5)


def test_surplus_values_are_dropped(kernels: Any) -> None:
    """Packages have lines with more values than names, which Triton takes."""
    x, out = line(4)
    kernels.surplus[(1,)](x, out, MORE=False)
    np.testing.assert_array_equal(out, x)
    with pytest.raises(Diagnostic, match="cannot unpack 2 values into 3 names"):
        kernels.surplus[(1,)](x, out, MORE=True)


def test_aggregates_wrap_constants_and_inherit_defaults(kernels: Any) -> None:
    given = kernels.Scaled(values=2)
    assert given.scale.value == 3 and kernels.Scaled(scale=4, values=1).scale.value == 4
    with pytest.raises(AttributeError, match="immutable aggregate Scaled"):
        given.scale = 5
    x, out = line(4)
    kernels.aggregates[(1,)](x, out, given)
    np.testing.assert_array_equal(out, 15 * x + 3)


def test_the_dialect_of_triton_ascend(kernels: Any) -> None:
    x, out = line(8)
    kernels.dialect[(1,)](x, out[:4], N=2)
    np.testing.assert_array_equal(out[:4], [4, 6, 8, 0])
    with pytest.raises(Diagnostic, match=r"`extension.sub_vec_id` cannot be used in a kernel"):
        kernels.foreign_core[(1,)](out)


def test_a_number_that_is_stored_wraps(kernels: Any) -> None:
    out = np.zeros(4, np.int32)
    kernels.wraps[(1,)](out, 4)
    np.testing.assert_array_equal(out, [-(2**31) + 1, 2, -2, -1])


def test_an_integer_that_others_cannot_hold_has_its_own_type(kernels: Any) -> None:
    """A negative number beside unsigned ones wraps, and a large one widens small ones."""
    codes, wide = np.arange(4, dtype=np.int32), np.zeros(4, np.int32)
    kernels.numbers_of_their_own[(1,)](codes, np.arange(4, dtype=np.int8), wide)
    np.testing.assert_array_equal(codes, np.arange(4) - (126 << 23))
    np.testing.assert_array_equal(wide, np.arange(300, 304))


def test_a_kernel_knows_where_its_def_stands(kernels: Any) -> None:
    lines = Path(kernels.double.file_name).read_text().splitlines()
    line = lines[kernels.double.def_file_line_number - 1]
    assert line[kernels.double.def_file_col_number - 1 :].startswith("def double(")


def test_a_kernel_that_is_built_from_text_has_the_parameters_of_its_signature(triton: ModuleType) -> None:
    def empty() -> None:
        """Has none of the parameters that its signature states."""

    def template(out: Any, value: Any, N: Any) -> None:
        """Has the parameters."""

    built = FunctionType(empty.__code__, {"tl": triton.language, "triton": triton}, "filled")
    constant = inspect.Parameter("N", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=triton.language.constexpr)
    *others, _ = inspect.signature(template).parameters.values()
    built.__signature__ = inspect.Signature([*others, constant])  # type: ignore[attr-defined]
    kernel = triton.JITFunction(built)
    kernel._unsafe_update_src("def filled(out, value, N: tl.constexpr):\n    tl.store(out + tl.arange(0, N), value)\n")
    out = np.zeros(4, np.float32)
    kernel[(1,)](out, 2.5, N=4)
    np.testing.assert_array_equal(out, 2.5)


def test_a_replaced_constructor_of_compiled_kernels_is_not_called(
    kernels: Any, triton: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package of AMD's puts one with Triton's own parameters in its place."""
    monkeypatch.setattr(triton.compiler.CompiledKernel, "__init__", lambda self, src, metadata_group, hash: None)
    x, out = line(8)
    assert kernels.double[(1,)](x, out, N=8).name == "double"
    np.testing.assert_array_equal(out, 2 * x)
