"""Hashes of what the compiler makes are the same in each process, and a change of one text is named."""

from __future__ import annotations

import subprocess
import sys

from tests.house.measure import ROOT
from tests.house.texts import CHIPS, CPUS, MODES, SETTINGS, differences

SCRIPT = """
from tests.house.texts import texts
for text in texts(("conformance", 0), "layer_norm|scatter"):
    print(text.line)
"""


def lines(seed: str) -> list[str]:
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(
        command, cwd=ROOT, env={"PYTHONHASHSEED": seed, "PATH": "", **SETTINGS}, capture_output=True, check=True
    )
    return done.stdout.decode().splitlines()


def test_hashes_do_not_depend_on_the_process() -> None:
    first = lines("1")
    assert first == lines("2")
    levels = [line.split(" ")[3] for line in first]
    assert levels.count("llvm") == len(CPUS) * len(MODES) * len({line.split(" ")[0] for line in first}) > 0
    assert {line.split(" ")[1] for line in first} == {*CPUS, *CHIPS}


def test_a_change_is_named() -> None:
    before = ["a v3 plain llvm 11", "b v3 plain llvm 22", "c v3 plain abi 33"]
    now = ["a v3 plain llvm 11", "b v3 plain llvm 23", "d v3 plain abi 33"]
    assert differences(before, before) == []
    found = ["changed b v3 plain llvm", "gone    c v3 plain abi", "new     d v3 plain abi"]
    assert differences(before, now) == found
    assert differences(before, now, "^b") == found[:1]
