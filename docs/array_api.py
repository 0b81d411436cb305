"""Writes the part of ``docs/array-api.md`` that says which official tests of the array API standard pass.

``python -m docs.array_api`` writes it, and a test holds the page to what it would write. The results are in
``docs/array-api.json``, which ``python -m tests.arrays.standard_suite`` writes from a checkout of these tests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).parent
PAGE: Final = HERE / "array-api.md"
FOUND: Final = HERE / "array-api.json"
PART: Final = re.compile(r"(?<=<!-- tried -->\n).*?(?=<!-- end of tried -->)", re.DOTALL)
REASONS: Final = {  # of exceptions, by a pattern of their names
    r".*floor_?div": "`//` of infinities has numpy's values: `inf // 1` is NaN, and `1 // -inf` is -1",
    r".*test_unary\[tanh\(real": "a complex `tanh` at infinity has numpy's sign of zero: the imaginary part may be -0",
}


def results() -> dict[str, Any]:
    """Return what the tests gave."""
    found: dict[str, Any] = json.loads(FOUND.read_text(encoding="utf-8"))
    return found


def reason(name: str) -> str | None:
    """Return why a test is an exception, or None if nobody said."""
    return next((text for pattern, text in REASONS.items() if re.match(pattern, name)), None)


def lines() -> Iterator[str]:
    """A table of counts, then every exception and every test that was skipped, with the reason."""
    found = results()
    passed = found["tests"] - len(found["failed"]) - len(found["skipped"])
    yield from ("| tests | passed | exceptions | skipped |", "|---|---|---|---|")
    yield f"| {found['tests']} | {passed} | {len(found['failed'])} | {len(found['skipped'])} |"
    yield from ("", f"Each test drew {found['examples']} examples.", "", "| exception | why |", "|---|---|")
    yield from (f"| `{name}` | {reason(name)} |" for name in found["failed"])
    yield from ("", "| skipped by the tests themselves | they say |", "|---|---|")
    yield from (f"| `{name}` | {said} |" for name, said in found["skipped"].items())


def page() -> str:
    """Return the page with that part written anew."""
    part = "\n".join(["", *lines(), "", ""])
    return PART.sub(lambda _: part, PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
