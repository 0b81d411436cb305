"""A fresh environment with the distribution pypto-triton, for tests that start processes of their own."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

from tests.house.measure import ROOT
from tests.house.test_wheel import python_of, run

FOLDER = ROOT / "distributions" / "pypto-triton"


def with_distribution(folder: Path) -> Path:
    """Makes one with the wheel; pypto is the checkout, and libraries are those of the running environment."""
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=FOLDER)
    (wheel,) = folder.glob("pypto_triton-*.whl")
    python = python_of(folder / "env")
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel, cwd=folder)
    libraries = dict.fromkeys(sysconfig.get_path(kind) for kind in ("purelib", "platlib"))
    (site_of(python) / "dependencies.pth").write_text("\n".join([str(ROOT), *libraries]), encoding="utf-8")
    return python


def site_of(python: Path) -> Path:
    (site,) = python.parents[1].rglob("site-packages")
    return site
