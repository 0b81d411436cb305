"""Results of the array API standard's tests: ``python -m tests.arrays.standard_suite CHECKOUT [examples]``.

It runs the tests of a checkout of `data-apis/array-api-tests`, unpatched, on the namespace of lazy arrays, and writes
``docs/array-api.json``. A page for users shows it, and a test holds it to the reasons of exceptions.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

FILE: Final = Path(__file__).parents[2] / "docs" / "array-api.json"
NAMESPACE: Final = "pypto.graph.lazy.namespace"


def run(checkout: Path, examples: int, report: Path) -> None:
    """Run the tests and write their results as XML of JUnit."""
    command = [
        *(sys.executable, "-m", "pytest", "array_api_tests", "-q", "-p", "no:cacheprovider", "-W", "ignore"),
        *(f"--max-examples={examples}", "--disable-deadline", f"--junitxml={report}"),
    ]
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "ARRAY_API_TESTS_MODULE": NAMESPACE, "PYTHONPATH": path}
    subprocess.run(command, cwd=checkout, env=environment, check=False)


def results(report: Path) -> dict[str, Any]:
    """Read how many tests there are, and what skipped and failed ones say."""
    found: dict[str, dict[str, str]] = {"skipped": {}, "failed": {}}
    tests = 0
    for case in ElementTree.parse(report).iter("testcase"):
        tests += 1
        name = f"{case.attrib['classname'].removeprefix('array_api_tests.')}::{case.attrib['name']}"
        for kind, tag in (("skipped", "skipped"), ("failed", "failure"), ("failed", "error")):
            for said in case.iter(tag):
                found[kind][name] = said.attrib.get("message", "").splitlines()[0][:120]
    return {"tests": tests, **{kind: dict(sorted(each.items())) for kind, each in found.items()}}


def main(checkout: str, examples: str = "10") -> None:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        run(Path(checkout), int(examples), report)
        found = {"examples": int(examples), **results(report)}
    FILE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
