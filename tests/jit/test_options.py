"""Options of kernels, settings of the process, threads, and the interpreter by choice."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.debug.levels import level_text
from pypto.errors import OptionError, PyptoWarning
from pypto.errors.frontend import TooManyOps
from pypto.errors.launch import NotLaunched
from pypto.options import INTERNAL, KernelOptions, Settings


def double(x, out):
    out[:] = x[:] * 2


@pytest.mark.parametrize(
    ("given", "text", "way"),
    [
        (
            {"num_threds": 2},
            "[E309] pto.jit has no option `num_threds`",
            "  help: did you mean `num_threads`? its options are interpret, checked, num_threads, level, fast_math, "
            "max_ops, blocking, disable, affinity",
        ),
        (
            {"zzz": 2},
            "[E309] pto.jit has no option `zzz`",
            "  help: its options are interpret, checked, num_threads, level, fast_math, max_ops, blocking, disable, "
            "affinity",
        ),
        ({"num_threads": "2"}, "[E309] pto.jit takes no '2' as `num_threads`", "  help: `num_threads` is an integer"),
        (
            {"disable": "peeling"},
            "[E309] pto.jit takes no 'peeling' as `disable`",
            "  help: `disable` is a tuple of names of passes",
        ),
        ({"fast_math": 1}, "[E309] pto.jit takes no 1 as `fast_math`", "  help: `fast_math` is True or False"),
    ],
)
def test_an_option_that_cannot_be_used(given: dict[str, Any], text: str, way: str) -> None:
    with pytest.raises(OptionError) as caught:
        pto.jit(**given)
    lines = str(caught.value).splitlines()
    assert (lines[0], lines[-1]) == (text, way)
    assert "pto.jit(**given)" in lines[2]


def unrolled(x, out, N: pto.constexpr):
    for i in pto.static_range(N):
        out[i] = x[i] * 2


@pytest.mark.parametrize("interpret", [False, True])
def test_a_kernel_that_becomes_too_large(interpret: bool) -> None:
    x, out = np.ones(50, np.float32), np.zeros(50, np.float32)
    kernel = pto.jit(max_ops=200, interpret=interpret)(unrolled)
    kernel[1](x, out, 5)
    assert out.tolist() == [2] * 5 + [0] * 45
    with pytest.raises(TooManyOps, match="more than 200 operations") as caught:
        kernel[1](x, out, 50)
    assert "pto.static_range(N)" in str(caught.value) and "max_ops=" in str(caught.value)
    pto.jit(max_ops=2000, interpret=interpret)(unrolled)[1](x, out, 50)
    assert out.tolist() == [2] * 50


@pytest.mark.parametrize("given", [{}, {"num_threads": 1}, {"fast_math": True}, {"interpret": True}])
def test_options_do_not_change_the_result(given: dict[str, Any]) -> None:
    kernel = pto.jit(**given)(double)
    assert kernel.options == KernelOptions(**given)
    out = np.zeros(3, np.float32)
    kernel[1](np.arange(3, dtype=np.float32), out)
    assert out.tolist() == [0, 2, 4]


def test_every_setting_is_in_the_guide() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs/settings.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))
    assert {row.metadata["env"] for row in fields(Settings)} <= rows
    assert {row.name for row in fields(KernelOptions) if row.name not in INTERNAL} <= rows


def test_every_field_says_what_it_does() -> None:
    for row in (*fields(Settings), *fields(KernelOptions)):
        assert row.metadata["doc"]
    names = [row.metadata["env"] for row in fields(Settings)]
    assert all(name.startswith("PYPTO_") for name in names) and len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, Settings()),
        ({"PYPTO_INTERPRET": "1", "HOME": "/"}, Settings(interpret=True)),
        ({"PYPTO_INTERPRET": "Off"}, Settings()),
        ({"PYPTO_CACHE": "ro", "PYPTO_CACHE_DIR": "/tmp"}, Settings(cache="ro", cache_dir="/tmp")),
        ({"PYPTO_NUM_THREADS": " 3 ", "PYPTO_LEVEL": "x86-64-v3"}, Settings(num_threads=3, level="x86-64-v3")),
        ({"PYPTO_LOG": "specialize"}, Settings(log="specialize")),
    ],
)
def test_settings_come_from_the_environment(environ: dict[str, str], expected: Settings) -> None:
    assert Settings.from_env(environ) == expected


@pytest.mark.parametrize(
    ("environ", "text"),
    [
        ({"PYPTO_INTERPRET": "maybe"}, "PYPTO_INTERPRET='maybe' is neither on nor off; use 1 or 0"),
        ({"PYPTO_CACHE": "on"}, "PYPTO_CACHE='on' is none of rw, ro, off"),
        ({"PYPTO_NUM_THREADS": "-1"}, "PYPTO_NUM_THREADS='-1' is no whole number of 0 or more"),
        ({"PYPTO_NUM_THREADS": ""}, "PYPTO_NUM_THREADS='' is no whole number of 0 or more"),
    ],
)
def test_a_setting_that_cannot_be_used(environ: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError) as caught:
        Settings.from_env(environ)
    assert str(caught.value) == text


def test_an_unknown_setting_is_warned_of() -> None:
    with pytest.warns(PyptoWarning, match=r"PYPTO_CASHE is no setting of pypto; did you mean PYPTO_CACHE\?"):
        assert Settings.from_env({"PYPTO_CASHE": "off"}) == Settings()


def test_the_interpreter_for_a_kernel_and_for_a_block() -> None:
    kernel = pto.jit(double)
    x, out = np.arange(3, dtype=np.float32), np.zeros(3, np.float32)
    pto.interpret(kernel)[1](x, out)
    assert out.tolist() == [0, 2, 4]
    with pto.interpreter():
        kernel[1](out, out)
    assert out.tolist() == [0, 4, 8]
    assert kernel.specializations == []
    kernel[1](out, out)
    assert out.tolist() == [0, 8, 16] and len(kernel.specializations) == 1


def test_threads_can_be_set() -> None:
    before = pto.get_num_threads()
    try:
        pto.set_num_threads(1)
        assert pto.get_num_threads() == 1
        pto.set_num_threads(10**6)
        assert pto.get_num_threads() == before
        pto.set_num_threads(0)
        assert pto.get_num_threads() == before >= 1
    finally:
        pto.set_num_threads(0)


def test_a_kernel_names_itself() -> None:
    kernel = pto.jit(double)
    assert repr(kernel) == "<kernel double(x, out)>"
    assert kernel.__name__ == "double" and kernel.__wrapped__ is double
    with pytest.raises(NotLaunched, match="double is a kernel and is launched over a grid"):
        kernel(1, 2)


def test_the_log_tells_what_is_compiled(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import pypto.compile

    session = pypto.compile.Session(Settings.from_env())
    session.settings = Settings(log="specialize")
    monkeypatch.setattr(pypto.compile, "session", lambda: session)
    kernel = pto.jit(double)
    kernel[1](np.zeros(3, np.float32), np.zeros(3, np.float32))
    text = capsys.readouterr().err
    assert text.startswith("pypto: double compiled for (x: array<f32, 1>, out: array<f32, 1>) with shape(out, 0) = 3")
    assert text.endswith("first call with these types\n")


def plus(x, out, num_threads):
    out[:] = x[:] + num_threads


def softmax(x, out):
    e = pto.exp(x[:] - pto.max(x[:]))
    out[:] = e / pto.sum(e)


def test_options_of_one_launch() -> None:
    """Equal ones share a variant; a launch without any has none."""
    x, out = np.ones(300, np.float32), np.zeros(300, np.float32)
    kernel = pto.jit(softmax)
    for options in ({"disable": ["fusion"]}, {"disable": ("fusion",)}, {"fast_math": True, "num_threads": 1}, {}):
        kernel.run(x, out, grid=(1,), **options)
        np.testing.assert_allclose(out, 1 / 300, rtol=1e-6)
    assert len(kernel.variants) == 2
    assert kernel.with_options(disable=["fusion"]) in kernel.variants.values()
    assert kernel.with_options(fast_math=False) is kernel
    texts = [level_text(kernel.compile(x, out, **o), "loop-ir") for o in ({}, {"disable": ["fusion"]})]
    assert ["| reduce sum" in text for text in texts] == [True, False]


def test_options_among_the_arguments_of_a_launch() -> None:
    """The variant runs, with the hooks of the kernel, also once native code makes the kernel's launches."""
    x, out, seen = np.ones(300, np.float32), np.zeros(300, np.float32), []
    kernel = pto.jit(softmax)
    kernel.add_pre_run_hook(lambda *args, **given: seen.append(given))
    kernel[1](x, out)
    for options in ({"disable": ["fusion"]}, {"disable": ("fusion",), "num_threads": 1}, {}):
        out[:] = 0
        kernel[1](x, out=out, **options)
        np.testing.assert_allclose(out, 1 / 300, rtol=1e-6)
    assert len(kernel.variants) == 2 and len(seen) == 4
    assert len(kernel.specializations) == 1
    assert len(kernel.with_options(disable=["fusion"]).specializations) == 1
    with pytest.raises(OptionError, match="cannot switch off `allocate`"):
        kernel[1](x, out, disable=("allocate",))


def test_a_parameter_of_an_option_s_name_is_a_parameter() -> None:
    x, out = np.ones(30, np.float32), np.zeros(30, np.float32)
    kernel = pto.jit(plus)
    kernel.run(x, out, 3, grid=(1,), disable=())
    kernel.run(x, out, num_threads=4, grid=(1,))
    np.testing.assert_array_equal(out, 5)
    assert not kernel.variants


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"fast_math": 1}, "double takes no 1 as `fast_math`"),
        ({"disable": ("allocate",)}, "cannot switch off `allocate`: code would not be right without it"),
    ],
)
def test_options_of_a_launch_that_cannot_be_used(options: dict[str, Any], text: str) -> None:
    x = np.ones(30, np.float32)
    with pytest.raises(OptionError, match=text):
        pto.jit(double).run(x, x.copy(), grid=(1,), **options)
