"""What packages import and read of Triton's tree is there, or it is listed here why it is not."""

from __future__ import annotations

import ast
import functools
import importlib
import json
import sys
from typing import Any

import pytest

from pypto.compat.triton import install, uninstall
from pypto.compat.triton.refused import Absent
from tests.compat.packages.imports import LIST, names_in

ROWS: dict[str, Any] = json.loads(LIST.read_text(encoding="utf-8"))
# Names that packages ask for to find out what they run on, and find missing on a CPU or in this version of Triton.
OLDER = "an older version of Triton has it; torch and others try it first"
VENDOR = "the Triton of another maker has it; who finds it takes this one for that"
OTHER = "the package's own: it sets the name, or means a value of that name that is no part of Triton"
MISSING = {
    "triton.backends.compiler.AttrsDescriptor": OLDER, "triton.compiler.compiler.AttrsDescriptor": OLDER,
    "triton.runtime.jit.create_specialize_impl": OLDER, "triton.runtime.jit.specialize_impl": OLDER,
    "triton.runtime.driver.utils": OLDER,
    "triton.runtime.cache._base64": OLDER, "triton.tools.experimental_descriptor": OLDER,
    "triton.language.extra.cuda.experimental_device_tensormap_create1d": OLDER,
    "triton.language.extra.cuda.experimental_device_tensormap_create2d": OLDER,
    "triton.language.extra.cuda.experimental_tensormap_fenceproxy_acquire": OLDER,
    "triton.runtime.driver.active._obj": OLDER, "triton.runtime.driver.driver": OLDER,
    "triton.backends.ascend": VENDOR, "triton.backends.enflame": VENDOR, "triton.backends.mlu": VENDOR,
    "triton.backends.nvidia": VENDOR, "triton.experimental.tle": VENDOR, "triton.fb": VENDOR,
    "triton.language.extra.mlu": VENDOR, "triton.language.extra.tlx": VENDOR, "triton.language.extract_slice": VENDOR,
    "triton.language.insert_slice": VENDOR, "triton.language.masked_select": VENDOR, "triton.language.empty": VENDOR,
    "triton.runtime.errors.IntelGPUError": VENDOR, "triton._unsloth_allocator_set": OTHER,
    "triton.backends.backends.glob": OTHER, "triton.backends.backends.is_dir": OTHER, "triton.language.cidv": OTHER,
    "triton.runtime.cache.knobs.cache.dir": OTHER,
}  # fmt: skip


def missing(name: str) -> str:
    """The first part of a full name that is not there; empty if all are."""
    parts = name.split(".")
    value = importlib.import_module(parts[0])
    for n, part in enumerate(parts[1:], 2):
        place = ".".join(parts[:n])
        if not hasattr(value, part):
            try:
                importlib.import_module(place)
            except ImportError:
                return place
        value = sys.modules[place] if not hasattr(value, part) else getattr(value, part)
    return ""


def test_what_packages_read_is_there_or_listed() -> None:
    install()
    try:
        lacking = {missing(name) for row in ROWS.values() for name in row["names"]} - {""}
    finally:
        uninstall()
    assert lacking == MISSING.keys()


def test_the_list_has_the_packages_with_their_versions() -> None:
    assert {"vllm", "fla", "liger_kernel", "flag_gems", "sglang", "unsloth", "torchao", "torch"} <= ROWS.keys()
    assert all(row["version"] and row["names"] for row in ROWS.values())


def test_names_of_a_module() -> None:
    text = """
import triton.language as tl
from triton.runtime import driver
from vllm.triton_utils import triton
tl.math.exp(driver.active.get_current_target()); triton.cdiv(other.tl, 2)
"""
    assert names_in(ast.parse(text)) == {
        "triton", "triton.cdiv", "triton.language", "triton.language.math", "triton.language.math.exp",
        "triton.runtime.driver", "triton.runtime.driver.active", "triton.runtime.driver.active.get_current_target",
    }  # fmt: skip


def test_a_part_of_a_name_that_is_refused_is_refused_too() -> None:
    with pytest.raises(NotImplementedError, match=r"^mbarrier\.init: write it otherwise"):
        Absent("mbarrier", "write it otherwise").init(1)


@pytest.mark.parametrize(
    ("use", "way"),
    [
        ("triton.backends.driver.expand_signature", "launches"),
        ("triton.runtime.interpreter._implicit_cvt", "PYPTO_INTERPRET=1"),
        ("triton.backends.cpu.driver.CPULauncher", "launches"),
        ("triton._C.libtriton.passes.ttir.add_inliner", "the inside of Triton's compiler"),
        ("triton.profiler.start", "torch.profiler"),
        ("triton.profiler.language.enter_scope", "torch.profiler"),
    ],
)
def test_the_inside_is_there_and_refused_on_use(triton: Any, use: str, way: str) -> None:
    assert missing(use) == ""
    name, _, rest = use.partition("triton.")[2].rpartition(".")
    value = functools.reduce(getattr, [*name.split("."), rest], triton)
    with pytest.raises(NotImplementedError, match=way):
        value("x")


def test_a_part_of_a_program_is_named_for_a_profiler(triton: Any) -> None:
    """Packages name parts whether or not a profile is taken."""
    profiler = importlib.import_module("triton.profiler")
    with profiler.scope("outside", metrics={"flops": 3}) as part:
        assert (part.name, part.metrics) == ("outside", {"flops": 3})
    assert profiler.scope("decorated")(len)([1, 2]) == 2
    assert profiler.enter_scope("here") is None and profiler.exit_scope() is None


def test_the_backend_has_the_names_of_tritons_fork_for_cpus(triton: Any) -> None:
    driver = importlib.import_module("triton.backends.cpu.driver")
    compiler = importlib.import_module("triton.backends.cpu.compiler")
    target = driver.CPUDriver().get_current_target()
    assert target == triton.runtime.driver.active.get_current_target()
    assert compiler.CPUBackend is triton.backends.backends[target.backend].compiler
