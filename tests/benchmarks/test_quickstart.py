"""The first figure of the quick start: what the page says is what is measured."""

from __future__ import annotations

import pytest

from benchmarks import quickstart


def test_the_page_says_what_is_promised() -> None:
    text = quickstart.PAGE.read_text(encoding="utf-8")
    assert quickstart.PROMISED == 2.0
    assert "numpy takes at least twice as" in text
    assert list(quickstart.files(text)) == ["tuned.py", "measure.py"]
    assert not any(word in text for word in ("times as fast as numpy", "6.24x"))


def test_levels_end_with_all_that_the_host_has() -> None:
    assert quickstart.levels()[-1] == ""


def test_a_figure_that_is_too_small_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(quickstart, "levels", lambda: [""])
    monkeypatch.setattr(quickstart, "ratio", lambda folder, level, threads: 1.5 + threads)
    assert quickstart.main() == 0
    monkeypatch.setattr(quickstart, "ratio", lambda folder, level, threads: 0.5 + threads)
    assert quickstart.main() == 1
    assert "at least 1.50; the quick start says 2" in capsys.readouterr().out
