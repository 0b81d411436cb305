"""Run a sample of Triton's own tests, unedited, on pypto: ``python -m tests.compat.core_sample [file [count]]``.

A file is a path, or a name of `FILES`, which comes from the folder that KERNEL_SOURCES names, or from GitHub. Cases run
in several processes, one after the other, so that one which ends its process costs the rest of its part alone: those
count as failed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.compat.sources import Repository, Unavailable, folder, online
from tests.patience import limit

ROOT = Path(__file__).parents[2]
CORE = Repository("triton-lang/triton-cpu", "910ba2e98deb5180a5fb8f204f57cd6e71d2436a", "triton", "python/test/unit")
FILES = {
    "test_core": "language/test_core.py",
    "test_standard": "language/test_standard.py",
    "test_random": "language/test_random.py",
    "test_tuple": "language/test_tuple.py",
    "test_block_pointer": "language/test_block_pointer.py",
    "test_mxfp": "language/test_mxfp.py",
    "test_conversions": "language/test_conversions.py",
    "test_tensor_descriptor": "language/test_tensor_descriptor.py",
    "test_libdevice": "language/test_libdevice.py",
    "test_autotuner": "runtime/test_autotuner.py",
}
PARTS = 5
LIMIT = 1800  # seconds for a part


@dataclass
class Found:
    """What a sample gave; `cases` are those of the whole file."""

    cases: int = 0
    outcomes: dict[str, str] = field(default_factory=dict)
    reasons: Counter[str] = field(default_factory=Counter)
    output: str = ""

    @property
    def counts(self) -> Counter[str]:
        return Counter(self.outcomes.values())

    @property
    def rate(self) -> float:
        """Of those that do not skip themselves, the share that passes."""
        ran = len(self.outcomes) - self.counts["skipped"]
        return self.counts["passed"] / ran if ran else 0.0


def source(name: str = "test_core") -> Path:
    """A file of `FILES` as it was published."""
    path = f"{CORE.prefix}/{FILES[name]}"
    place = folder() / CORE.name.replace("/", "+") / CORE.commit / path
    if not place.exists():
        if not online():
            raise Unavailable(path)
        CORE.fetch(path, place)
    return place


def sample(file: Path, count: int = 1500, parts: int = PARTS, seed: int = 0) -> Found:
    """Draw cases of a file and run them in several processes."""
    found = Found()
    with tempfile.TemporaryDirectory() as work:
        for part in range(parts):
            log = Path(work) / f"{part}.jsonl"
            numbers = {"SAMPLE": count, "SEED": seed, "PART": part, "PARTS": parts, "LOG": log}
            found.output = run(file, {f"CORE_{name}": str(x) for name, x in numbers.items()}, work)
            for line in log.read_text(encoding="utf-8").splitlines() if log.exists() else ():
                take(found, json.loads(line))
    return found


def run(file: Path, variables: dict[str, str], work: str) -> str:
    """One part, in a process of its own, without the configuration of this repository."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    plain = ("-q", "-c", os.devnull, "-p", "no:cacheprovider", "-W", "ignore", f"--rootdir={work}")
    command = [sys.executable, "-m", "pytest", "-p", "tests.compat.core_plugin", *plain, str(file)]
    told: dict[str, Any] = {
        "env": {**os.environ, **variables, "PYTHONPATH": path},
        "cwd": work,
        "timeout": limit(LIMIT),
    }
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, **told)
    except subprocess.TimeoutExpired:
        return f"a part took more than {LIMIT} seconds"
    return str(done.stdout[-2000:])


def take(found: Found, row: dict[str, Any]) -> None:
    """A line of the log. A case that was chosen has failed until it says otherwise."""
    if "cases" in row:
        found.cases = row["cases"]
    elif "chosen" in row:
        found.outcomes.update(dict.fromkeys(row["chosen"], "failed"))
    else:
        found.outcomes[row["case"]] = row["outcome"]
        if row["outcome"] == "failed":
            found.reasons[f"{row['case'].split('[')[0]}: {row['reason']}"] += 1


def main(file: str = "test_core", count: str = "1500") -> None:
    found = sample(source(file) if file in FILES else Path(file).resolve(), int(count))
    print(f"{found.cases} cases, drawn {len(found.outcomes)}: {dict(found.counts)}, {found.rate:.1%} pass")
    for reason, times in found.reasons.most_common():
        print(f"{times:4} {reason}")
    if not found.outcomes:
        print(found.output)


if __name__ == "__main__":
    main(*sys.argv[1:])
