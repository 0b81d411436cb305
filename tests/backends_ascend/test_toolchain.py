"""Toolkits: where they are found, each form of compiling, errors at the user's line, and no second compilation."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pypto.backends.ascend.toolchain.toolchain import Toolchain, find_toolkit, form_of, toolkit_version, user_place
from pypto.compile import session
from pypto.errors.device import CompilerTimeout, NotCompiled, NoToolkit
from pypto.runtime.disk_cache.cache import Cache
from tests.patience import limit
from tests.runtime.simulated import SCALE, folder, new_device, new_scale, written_by_hand

needs_compiler = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")
TEXT = SCALE.replace("LOAD", "4").replace("STORE", "5")


def fake(folder: Path, *programs: str, version: str = "") -> Path:
    """A toolkit with empty programs."""
    for name in programs:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("", encoding="utf-8")
    if version:
        (folder / "version.info").write_text(version, encoding="utf-8")
    return folder


def test_variables_come_before_the_usual_places(tmp_path: Path) -> None:
    one, two, usual = (fake(tmp_path / name, "bin/bisheng") for name in ("one", "two", "usual"))
    variables = {"ASCEND_HOME_PATH": str(one), "ASCEND_TOOLKIT_HOME": str(two)}
    assert find_toolkit("ascend:0", variables, (str(usual),)) == one
    assert find_toolkit("ascend:0", {"ASCEND_TOOLKIT_HOME": str(two)}, (str(usual),)) == two
    assert find_toolkit("ascend:0", {}, (str(tmp_path / "none"), str(usual))) == usual


def test_what_to_do_without_a_toolkit(tmp_path: Path) -> None:
    with pytest.raises(NoToolkit, match=r"ascend:0 needs CANN(?s:.*)set_env.sh(?s:.*)ascend-sim"):
        find_toolkit("ascend:0", {}, (str(tmp_path),))
    with pytest.raises(NoToolkit, match=r"ASCEND_HOME_PATH is .*, where no compiler is"):
        find_toolkit("ascend:0", {"ASCEND_HOME_PATH": str(tmp_path)}, ())


@pytest.mark.parametrize(
    ("programs", "version", "form"),
    [
        (("bin/bisheng", "bin/ccec"), "Version=8.5.0\n", "asc"),
        (("compiler/ccec_compiler/bin/bisheng",), "version=[8.0.RC3]\n", "cce"),
        (("bin/ccec",), "Version=9.0.0\n", "cce"),
        (("bin/bisheng", "lib64/libacl_rtc.so"), "Version=8.5.0\n", "rtc"),
        (("bin/bisheng",), "", "asc"),
    ],
)
def test_the_form_follows_from_what_is_there(tmp_path: Path, programs: Any, version: str, form: str) -> None:
    made = fake(tmp_path, *programs, version=version)
    assert form_of(made, toolkit_version(made)) == form


def test_the_version_is_part_of_the_key(tmp_path: Path) -> None:
    made = fake(tmp_path, "bin/bisheng", version="Version=8.5.0\n")
    assert Toolchain(made).key_parts() == (("cann", "8.5.0"), ("form", "asc"))


def test_command_lines(tmp_path: Path) -> None:
    """As CANN's documentation has them."""
    made = fake(tmp_path, "bin/bisheng", "bin/ccec", "bin/ld.lld", "tikcpp/tikcfw/kernel_operator.h")
    source, target = Path("k.asc"), Path("k.bin")
    bisheng, link = Toolchain(made, "asc").commands(source, target, "mix", "dav-2201")
    assert [Path(bisheng[0]).name, *bisheng[1:4]] == ["bisheng", "-x", "asc", "--npu-arch=dav-2201"]
    assert Path(link[0]).name == "ld.lld"
    assert link[1:] == ["-m", "aicorelinux", "-Ttext=0", "k.o", "-static", "-o", "k.bin"]
    cube, vector, link = Toolchain(made, "cce").commands(source, target, "mix", "dav-2201")
    assert [Path(cube[0]).name, *cube[1:4]] == ["ccec", "-x", "cce", "--cce-aicore-arch=dav-c220-cube"]
    assert vector[3] == "--cce-aicore-arch=dav-c220-vec"
    assert f"-I{made / 'tikcpp/tikcfw'}" in cube
    assert [cube[-3], vector[-3]] == ["k.cube.asc", "k.vec.asc"]
    assert {"-cce-enable-mix", "-D__MIX_CORE_MACRO__=1"} <= set(cube) & set(vector)
    assert link[4:6] == ["k.cube.o", "k.vec.o"]
    (only, _) = Toolchain(made, "cce").commands(source, target, "vector", "dav-3510")
    assert only[3] == "--cce-aicore-arch=dav-c310-vec"
    assert "-D__MIX_CORE_MACRO__=1" not in only


def test_lines_of_the_user() -> None:
    text = "a;  // 3\nb;\nc;  // /tmp/k.py:12\nd;\n"
    assert user_place(text, 1, "k") is None
    at = [user_place(text, n, "k", "own.py") for n in (1, 2, 3, 4)]
    assert [(p.file, p.line) for p in at if p] == [("own.py", 3), ("own.py", 3), ("/tmp/k.py", 12), ("/tmp/k.py", 12)]
    place = user_place("a;  // k.py:3\n", 1, "k", "/home/k.py")
    assert place is not None
    assert (place.file, place.line) == ("/home/k.py", 3)


@needs_compiler
@pytest.mark.parametrize("form", ["asc", "cce"])
def test_each_form_runs(form: str) -> None:
    device, x, y = new_device(form), np.arange(20, dtype=np.float32), np.zeros(20, np.float32)
    with device:
        new_scale()[(2,)](x, y, 2.0)
    np.testing.assert_array_equal(y, 2 * x)


@needs_compiler
@pytest.mark.parametrize("form", ["asc", "cce"])
def test_an_error_of_the_compiler_is_at_the_line_of_the_user(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session(), "cache", Cache(None, "off"))  # another test may have compiled it without the mistake

    def wrong(function: Any, target: Any) -> Any:
        kernel, text = written_by_hand(function, target)
        text = text.replace("DataCopyPad(to, t", "DataCopyPadd(to, t")
        return kernel, text.replace("  // ", "  // simulated.py:")

    x = np.zeros(4, np.float32)
    with new_device(form, wrong), pytest.raises(NotCompiled, match=r"refused the Ascend C .*DataCopyPadd") as caught:
        new_scale()[(1,)](x, x, 2.0)
    assert "y[i] = value * a" in str(caught.value)
    assert "DataCopyPadd" in caught.value.fields["text"]


@needs_compiler
def test_a_compiler_has_its_time(tmp_path: Path) -> None:
    with pytest.raises(CompilerTimeout, match="did not finish scale within 0"):
        Toolchain(folder(), timeout=0.001).compile(TEXT, "scale", "vector", "dav-2201")


@needs_compiler
def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert Toolchain(folder()).compile(TEXT, "scale", "vector", "dav-2201")[:4] == b"\x7fELF"
    with pytest.raises(NotCompiled):
        Toolchain(folder()).compile("nonsense", "scale", "vector", "dav-2201")
    assert list(tmp_path.iterdir()) == []


def test_a_program_that_does_not_run(tmp_path: Path) -> None:
    made = fake(tmp_path, "bin/bisheng")
    with pytest.raises(NoToolkit, match="does not run"):
        Toolchain(made).compile(TEXT, "scale", "vector", "dav-2201")


RTC = r"""
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
// A library of runtime compilation that gives the text back, and finds fault with "nonsense" in the third line.
struct Program { std::string text, log; };
static int live = 0;
extern "C" {
int aclrtcCreateProg(void** p, const char* text, const char*, int, const char**, const char**) {
    *p = new Program{text, ""}, ++live;
    return 0;
}
int aclrtcCompileProg(void* p, int n, const char** options) {
    auto* program = static_cast<Program*>(p);
    if (n < 1 || std::strcmp(options[0], "--npu-arch=dav-2201") != 0) return 2;
    if (program->text.find("nonsense") == std::string::npos) return 0;
    program->log = "scale:3:1: error: unknown name nonsense\n";
    return 1;
}
int aclrtcGetCompileLogSize(void* p, size_t* n) { return *n = static_cast<Program*>(p)->log.size() + 1, 0; }
int aclrtcGetCompileLog(void* p, char* to) { return std::strcpy(to, static_cast<Program*>(p)->log.c_str()), 0; }
int aclrtcGetBinDataSize(void* p, size_t* n) { return *n = static_cast<Program*>(p)->text.size(), 0; }
int aclrtcGetBinData(void* p, char* to) {
    auto* program = static_cast<Program*>(p);
    return std::memcpy(to, program->text.data(), program->text.size()), 0;
}
int aclrtcDestroyProg(void** p) { return delete static_cast<Program*>(*p), --live, 0; }
int programs_alive() { return live; }
}
"""


@needs_compiler
def test_runtime_compilation(tmp_path: Path) -> None:
    import ctypes

    made = fake(tmp_path, "bin/bisheng", "lib64/rtc.cpp")
    library, source = made / "lib64" / "libacl_rtc.so", made / "lib64" / "rtc.cpp"
    source.write_text(RTC, encoding="utf-8")
    subprocess.run(["g++", "-shared", "-fPIC", str(source), "-o", str(library)], check=True, timeout=limit(120))
    chain = Toolchain(made)
    assert chain.form == "rtc"
    assert chain.compile("some text", "scale", "vector", "dav-2201") == b"some text"
    with pytest.raises(NotCompiled, match=r"aclrtc refused .* unknown name nonsense") as caught:
        chain.compile("one;\ntwo;\nnonsense;  // /tmp/k.py:12\n", "scale", "vector", "dav-2201")
    assert caught.value.loc is not None
    assert caught.value.loc.line == 12
    assert ctypes.CDLL(str(library)).programs_alive() == 0


SECOND = """
import numpy as np
from tests.runtime.simulated import new_device, new_scale
x, y = np.arange(6, dtype=np.float32), np.zeros(6, np.float32)
with new_device():
    new_scale()[(2,)](x, y, 2.0)
print(y.tolist())
"""


@needs_compiler
def test_a_second_process_calls_no_compiler(tmp_path: Path) -> None:
    """Programs of the toolkit that count their calls: the second process finds the binary in the disk cache."""
    real, calls = folder(), tmp_path / "calls"
    cache = tmp_path / "cache"
    copied = cache / real.name
    shutil.copytree(real, copied)
    for name in ("bisheng", "ld.lld"):
        program = copied / "bin" / name
        lines = program.read_text(encoding="utf-8").splitlines()
        program.write_text("\n".join([lines[0], f'echo {name} >> "{calls}"', *lines[1:], ""]), encoding="utf-8")
    environment = {**os.environ, "PYPTO_CACHE_DIR": str(cache)}
    for expected in (["bisheng", "ld.lld"], ["bisheng", "ld.lld"]):
        done = subprocess.run([sys.executable, "-c", SECOND], env=environment, capture_output=True, text=True,
            timeout=limit(120), check=True)  # fmt: skip
        assert done.stdout == "[0.0, 2.0, 4.0, 6.0, 8.0, 10.0]\n"
        assert calls.read_text(encoding="utf-8").split() == expected
