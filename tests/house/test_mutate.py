"""The faults that mutation testing plants: the same ones each time, in Python that still parses, and found by tests."""

from __future__ import annotations

import ast
import random
from pathlib import Path

from tests.conformance.processes import ROOT
from tests.house.mutate import PLACES, Fault, chosen, faults, found_by, near


def test_equal_seeds_give_equal_faults_from_all_places() -> None:
    some = chosen(8, 1)
    assert some == chosen(8, 1) != chosen(8, 2)
    assert [sum(f.file.startswith(place) for f in some) for place in PLACES] == [2, 2, 2, 2]


def test_faults_are_python_and_change_it(tmp_path: Path) -> None:
    for fault in random.Random(0).sample(faults(), 40):
        before = (ROOT / fault.file).read_text(encoding="utf-8")
        file = tmp_path / fault.file
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(before, encoding="utf-8")
        fault.plant(tmp_path)
        after = file.read_text(encoding="utf-8")
        assert ast.dump(ast.parse(after)) != ast.dump(ast.parse(before)), fault


def test_a_fault_is_found_by_the_test_that_covers_it() -> None:
    text = (ROOT / "pypto/loc.py").read_bytes()
    start = text.index(b"class Loc")
    broken = Fault("pypto/loc.py", 1, start, start + len(b"class Loc"), "class Loc", "class Lok")
    assert found_by(broken, ["tests/ir/test_text.py"])
    same = Fault("pypto/loc.py", 1, start, start, "", "\n")
    assert found_by(same, ["tests/house/test_skips.py", "-k", "test_the_list_is_read"]) == ""


def test_tests_that_are_named_like_the_file_come_first() -> None:
    tests = near("pypto/passes/unswitch_modulo.py")
    assert tests[:2] == ["tests/backends_cpu/test_unswitch_modulo.py", "tests/passes/test_unswitch_modulo.py"]
    assert tests[-1] == "tests/passes"
    assert all(near(fault.file)[-1].startswith("tests/") for fault in chosen(8, 0))
