"""The backend in `examples/portable_c`: found by its entry point, it runs what it supports and refuses the rest."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto import library as lib
from pypto.backends import registry
from pypto.compile import compiler_hash, hash_of_sources, session
from pypto.debug.explain import explain
from pypto.debug.levels import level_text
from pypto.errors import Diagnostic, OptionError
from pypto.errors.device import UnknownDevice
from tests.conformance.running import ALL, assert_close, make_launch, quick_part, run
from tests.house.measure import ROOT

FOLDER = ROOT / "examples" / "portable_c"
NARROW = {"add_native_f16", "add_pointers", "axpy_mixed", "reduce_f16", "reduce_bf16", "reduce_bf16_one_left",
          "matmul_bf16", "matmul_f16", "matmul_pointers", "matmul_wrapped"}  # fmt: skip
SUPPORTED = sorted(ALL.keys() - NARROW)
# Rows of the library whose kernels need what this backend has not: floats of 16 and 8 bits, and histograms.
NEEDY = {"w8a8_matmul", "quantize_mx", "mx_matmul", "window_attention", "compressed_attention", "topk",
         "sparse_compressed_attention", "mla_prolog", "mla_prolog_quant", "lightning_indexer", "indexer_prolog",
         "mla_prolog_v4", "mla_prolog_v4_quant", "indexer_prolog_v4", "compressor", "sparse_attention",
         "sparse_attention_quant"}  # fmt: skip
ROWS = sorted(lib.rows.keys() - NEEDY)


@pytest.fixture(scope="module", autouse=True)
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The package as an installer leaves it: its code and its entry points on the path."""
    project = tomllib.loads((FOLDER / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    folder = tmp_path_factory.mktemp("site")
    metadata = folder / "pypto_portable_c-0.1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0.1.0\n")
    groups = project["entry-points"].items()
    texts = (f"[{name}]\n" + "".join(f"{k} = {v}\n" for k, v in points.items()) for name, points in groups)
    (metadata / "entry_points.txt").write_text("".join(texts))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [*sys.path, str(folder), str(FOLDER)])
        yield


@pytest.fixture
def device() -> Any:
    return pto.device("portable-c")


@pto.jit
def scale(x, y, factor):
    y[:] = x[:] * factor


@pytest.mark.parametrize("name", quick_part(2, SUPPORTED))
def test_conformance(device: Any, name: str) -> None:
    launch = make_launch(name)
    with device:
        found = run(launch.kernel, launch)
    assert_close(found, launch.expected, launch.tolerance, name)


@pytest.mark.parametrize("name", sorted(NARROW))
def test_what_is_not_supported_is_refused_with_its_line(device: Any, name: str) -> None:
    launch = make_launch(name)
    with device, pytest.raises(Diagnostic, match="is not supported by portable-c") as caught:
        run(launch.kernel, launch)
    assert caught.value.code == "C001"
    assert caught.value.loc is not None and caught.value.loc.user.file.endswith(".py")


def small(name: str) -> dict[str, str]:
    """The small size of a row, on float32 where the row takes it."""
    takes_floats = "f32" in map(str, lib.rows[name].signature.main_dtypes)
    return {"platform": "portable-c", "case": "small", **({"dtype": "f32"} if takes_floats else {})}


def test_most_rows_of_the_library_have_no_special_needs() -> None:
    assert len(ROWS) >= 55


@pytest.mark.parametrize("name", quick_part(3, ROWS))
def test_rows_of_the_library_run_on_a_third_backend(name: str) -> None:
    assert lib.rows[name].check(**small(name)), "no version runs here"


@pytest.mark.parametrize("name", sorted(NEEDY))
def test_rows_with_special_needs_are_refused_by_what_they_need(name: str) -> None:
    with pytest.raises(Diagnostic, match=r"(`histogram`|the element type \w+) is not supported by portable-c"):
        lib.rows[name].check(**small(name))


def test_functions_of_the_op_table_run_by_their_lane_rules(device: Any) -> None:
    @pto.jit
    def functions(x, y):
        t = x[:]
        y[0, :], y[1, :], y[2, :], y[3, :] = pto.sin(t), pto.exp(-t), pto.erf(t), pto.atan2(t, 2.0)

    x = np.linspace(0.1, 5, 50, dtype=np.float32)
    found, expected = np.zeros((4, 50), np.float32), np.zeros((4, 50), np.float32)
    with device:
        functions[(1,)](x, found)
    functions[(1,)](x, expected)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_levels_explanations_and_targets(device: Any) -> None:
    x = np.ones((8, 4), np.float32)[:, 0]
    version = scale.compile(x, x.copy(), 2.0, target="portable-c")
    assert "int kernel_scale(const int64_t *args) {" in level_text(version, "c")
    with device:
        assert "by a stride known at run time" in str(explain(scale, x, x.copy(), 2.0))
        assert [level.name for level in scale.inspect(x, x.copy(), 2.0).levels] == ["tile-ir", "optimized-ir", "c"]
    with pytest.raises(OptionError, match=r"known are ascend910b1, .*, portable-c"):
        session().devices.chip("nothing")


def test_code_depends_on_the_folder_of_the_backend(device: Any) -> None:
    assert compiler_hash(device.backend) == hash_of_sources(FOLDER / "pypto_portable_c")
    assert compiler_hash(device.backend) != compiler_hash(session().backend(scale.options))


def test_a_missing_compiler_is_said(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    x = np.ones(3, np.float64)
    with device, pytest.raises(Diagnostic, match="there is no no-such-compiler"):
        scale.compile(x, x.copy(), 3.0)


def test_names_of_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pto.device("portable-c") is pto.device("portable-c")
    with pytest.raises(UnknownDevice):
        pto.device("portable-c:1")
    with pytest.raises(UnknownDevice):
        pto.device("portable")
    entry = next(entry for entry in registry.installed() if entry.name == "portable-c")
    broken = type(entry)(entry.name, "no_such_module:PLUGIN", entry.group)
    with pytest.raises(ModuleNotFoundError) as caught:
        registry.loaded(broken)
    assert "the backend 'portable-c' of the entry point group" in caught.value.__notes__[0]
