"""What may be passed to a kernel, and that it is passed unchanged."""

from __future__ import annotations

import linecache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pypto as pto
from pypto.ir.types import DTYPE_BY_NAME


@pto.jit
def copy(x, out):
    out[:] = x[:]


@pto.jit
def store(out, value):
    out[0] = value


TYPES = [
    bool, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
    np.float16, np.float32, np.float64, ml_dtypes.bfloat16,
]  # fmt: skip


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: np.dtype(kind).name)
def test_arrays_of_every_type(kind: Any) -> None:
    x, out = np.asarray([0, 1, 1, 0, 1]).astype(kind), np.zeros(5, kind)
    copy[1](x, out)
    np.testing.assert_array_equal(out, x)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (True, "i1"), (0, "i32"), (2**31 - 1, "i32"), (-(2**31), "i32"), (2**31, "i64"), (-(2**31) - 1, "i64"),
        (2**63 - 1, "i64"), (-(2**63), "i64"), (2**63, "u64"), (2**64 - 1, "u64"), (1.5, "f32"), (-0.0, "f32"),
        (np.int8(-5), "i8"), (np.uint8(200), "u8"), (np.int64(3), "i64"), (np.uint64(2**63), "u64"),
        (np.float16(0.5), "f16"), (np.float64(0.1), "f64"), (ml_dtypes.bfloat16(3), "bf16"), (np.bool_(True), "i1"),
    ],
)  # fmt: skip
def test_numbers_keep_their_type_and_value(value: Any, name: str) -> None:
    @pto.jit
    def kernel(out, value):
        out[0] = value

    kind = DTYPE_BY_NAME[name].numpy
    out = np.zeros(1, kind)
    for _ in range(2):  # compiled, and from the plan
        out[:] = 0
        kernel[1](out, value)
        assert out[0] == kind.type(value)
        assert np.signbit(out[0].astype(float)) == np.signbit(float(value))
    assert dict(kernel.specializations[0].types)["value"] == name
    assert len(kernel.specializations) == 1


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), 1e300, 3.4e38, 1e-45, 0.1])
def test_floats_are_rounded_to_float32(value: float) -> None:
    out = np.zeros(1, np.float32)
    for _ in range(2):
        store[1](out, value)
        with np.errstate(over="ignore"):
            assert out[0] == np.float32(value)


def test_nan_stays_nan() -> None:
    out = np.zeros(1, np.float32)
    store[1](out, float("nan"))
    assert np.isnan(out[0])


def test_an_integer_too_large_says_so() -> None:
    with pytest.raises(OverflowError, match=r"store: value = 18446744073709551616 does not fit into 64 bits"):
        store[1](np.zeros(1), 2**64)


def test_the_same_kernel_takes_integers_of_all_sizes() -> None:
    @pto.jit
    def kernel(out, value):
        out[0] = value

    out = np.zeros(1, np.float64)
    for value in (1, 2, 2**31, 2**63, 1, 2**31 + 1, -1, 1.5, True, 2**63 + 2**11):
        kernel[1](out, value)
        assert out[0] == value
    assert sorted(dict(s.types)["value"] for s in kernel.specializations) == ["f32", "i1", "i32", "i64", "u64"]


LAYOUTS = {
    "fortran": np.asfortranarray,
    "transposed": lambda x: np.ascontiguousarray(x.T).T,
    "backwards": lambda x: np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1],
    "every other": lambda x: np.repeat(np.repeat(x, 2, 0), 3, 1)[::2, ::3],
    "offset": lambda x: np.pad(x, 3)[3:-3, 3:-3],
    "row repeated": lambda x: np.broadcast_to(x[:1], x.shape),
    "one number": lambda x: np.broadcast_to(x[:1, :1], x.shape),
    "unaligned": lambda x: np.frombuffer(b"\0" + x.tobytes(), x.dtype, offset=1).reshape(x.shape),
    "read-only": lambda x: np.frombuffer(x.tobytes(), x.dtype).reshape(x.shape),
}


@pto.jit
def scaled(x, out, BM: pto.constexpr, BN: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    out[i : i + BM, j : j + BN] = x[i : i + BM, j : j + BN] * 2


@pytest.mark.parametrize("layout", LAYOUTS)
def test_arrays_of_every_layout(layout: str) -> None:
    x = LAYOUTS[layout](np.arange(7 * 11, dtype=np.float32).reshape(7, 11))
    out = np.full((7, 11), -1, np.float32)
    scaled[4, 3](x, out, 2, 4)
    np.testing.assert_array_equal(out, x * 2)


@pytest.mark.parametrize("layout", ["fortran", "transposed", "backwards", "every other", "offset"])
def test_results_of_every_layout(layout: str) -> None:
    x = np.arange(7 * 11, dtype=np.float32).reshape(7, 11)
    out = LAYOUTS[layout](np.full((7, 11), -1, np.float32))
    scaled[4, 3](x, out, 2, 4)
    np.testing.assert_array_equal(out, x * 2)


def test_an_array_in_a_file(tmp_path: Any) -> None:
    out = np.memmap(tmp_path / "file", np.float32, "w+", shape=(5,))
    for _ in range(2):
        copy[1](np.arange(5, dtype=np.float32), out)
    out.flush()
    assert np.fromfile(tmp_path / "file", np.float32).tolist() == [0, 1, 2, 3, 4]


class Interface:
    """An array of another library."""

    def __init__(self, array: Any) -> None:
        self.array = array

    @property
    def __array_interface__(self) -> Any:
        return self.array.__array_interface__


class Exporter:
    """An array of a library that speaks DLPack."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("wrap", [Interface, Exporter])
def test_arrays_of_other_libraries(wrap: Any) -> None:
    for size in (3, 3, 4):
        x = np.arange(size, dtype=np.float32)
        out = np.zeros(size, np.float32)
        copy[1](wrap(x), out)
        np.testing.assert_array_equal(out, x)
    copy[1](out + 1, wrap(out))
    assert out.tolist() == [1, 2, 3, 4]


def test_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    for kind in (torch.float32, torch.bfloat16, torch.int64, torch.bool):
        x = torch.tensor([[0, 1, 1], [1, 0, 1]]).to(kind)
        out = torch.zeros(2, 3, dtype=kind)
        for source in (x, x.T.contiguous().T, x.repeat_interleave(2, 1)[:, ::2]):
            for _ in range(2):
                scaled[1, 1](source, out, 2, 4)
                assert torch.equal(out, x * 2 if kind is not torch.bool else x)
    with pytest.raises(TypeError, match=r"a torch.sparse_coo tensor of torch.float32"):
        scaled[1, 1](x.to(torch.float32).to_sparse(), out, 2, 4)
    with pytest.raises(TypeError, match="a tensor on meta"):
        scaled[1, 1](x.to("meta"), out, 2, 4)


def test_torch_tensors_and_arrays_meet() -> None:
    torch = pytest.importorskip("torch")
    out = np.zeros(4, np.float32)
    shared = torch.from_numpy(out)
    copy[1](torch.arange(4, dtype=torch.float32), out)
    assert out.tolist() == [0, 1, 2, 3]
    copy[1](np.ones(4, np.float32), shared)
    assert out.tolist() == [1, 1, 1, 1]


def test_empty_arrays() -> None:
    @pto.jit
    def sizes(x, y, out):
        out[0] = x.shape[0] * 100 + y.shape[1] * 10 + x.ndim

    out = np.zeros(1, np.int32)
    sizes[1](np.zeros(0, np.float32), np.zeros((0, 3), np.float64), out)
    assert out[0] == 31


def test_a_kernel_of_many_arrays_is_launched_again_and_again() -> None:
    """Their places may be more than an argument block of the launcher has."""
    for count in (40, 95):
        names = [f"a{n}" for n in range(count)]
        lines = [f"def total({', '.join(names)}, out):", "    t = pto.zeros((4,), pto.float32)"]
        lines += [f"    t = t + {name}[pto.program_id(0), 0:4]" for name in names]
        lines.append("    out[pto.program_id(0), 0:4] = t")
        file = f"<many {count}>"
        linecache.cache[file] = (1, None, [f"{line}\n" for line in lines], file)
        scope: dict[str, Any] = {"pto": pto}
        exec(compile("\n".join(lines), file, "exec"), scope)
        x, out = np.ones((count + 8, 10), np.float32), np.zeros((8, 4), np.float32)
        kernel = pto.jit(scope["total"])
        given = [x[n : n + 8, 1:5] for n in range(count)]
        step = kernel.bind(*given, out, grid=(8,))
        for _ in range(3):
            kernel[8](*given, out)
            step()
            np.testing.assert_array_equal(out, count)
