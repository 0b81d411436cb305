"""The rule that says which tests need torch, and what finds one that the rule forgot."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.skips import allowed
from tests.with_torch import forgotten, needs_torch

ONE = "def test_it():\n    torch = pytest.importorskip('torch')\n\ndef test_other():\n    pass\n"
WANT = "Skipped: could not import 'torch': No module named 'torch'"


@dataclass
class Skipped:
    nodeid: str
    keywords: dict[str, object] = field(default_factory=dict)


@pytest.mark.parametrize(
    ("text", "it", "other"),
    [
        (ONE, True, False),
        (
            ONE.replace("    torch = pytest.importorskip('torch')", "    from torch.utils import cpp_extension"),
            True,
            False,
        ),
        (ONE.replace("'torch'", "'torchless'"), False, False),
        (ONE + "\ndef helper():\n    import torch.nn\n", True, True),
        ("torch = pytest.importorskip('torch')\n", True, True),
        ("HAS_TORCH = importlib.util.find_spec('torch')\n", True, True),
        ("class TestIt:\n    def test_it(self):\n        import torch\n", True, True),
        ("WORDS = ('torch', 'numba')\n", False, False),
    ],
)
def test_needs_torch(text: str, it: bool, other: bool, tmp_path: Path) -> None:
    file = tmp_path / "test_file.py"
    file.write_text(text, encoding="utf-8")
    assert (needs_torch(file, "test_it"), needs_torch(file, "test_other")) == (it, other)


def test_forgotten(tmp_path: Path) -> None:
    (tmp_path / "test_whole.py").write_text("torch = pytest.importorskip('torch')\n", encoding="utf-8")
    (tmp_path / "test_named.py").write_text("LIBRARY = 'torch'\n", encoding="utf-8")
    found = [Skipped("test_named.py::test_marked", {"torch": 1}), Skipped("test_whole.py"), Skipped("test_named.py::a")]
    assert forgotten([(report, WANT) for report in found[:2]], allowed(), tmp_path) == []
    assert forgotten([(found[2], "needs g++")], allowed(), tmp_path) == []
    text = "test_named.py{} is skipped for want of torch, but has no marker `torch`"
    assert forgotten([(found[2], WANT)], allowed(), tmp_path) == [text.format("::a")]
    assert forgotten([(Skipped("test_named.py"), WANT)], allowed(), tmp_path) == [text.format("")]
