"""Hugging Face's `kernels`: a package of Triton kernels in the hub's layout, loaded from a folder."""

from __future__ import annotations

import json
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from tests.compat.packages.agreement import Check, later, same

PACKAGE = "kernels"
METADATA = {
    "name": "scaling", "id": "scaling", "version": 1, "license": "apache-2.0", "python-depends": [],
    "backend": {"type": "cpu"},
}  # fmt: skip
SOURCE = """
import torch
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x, y, factor, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * factor, mask=i < n)


def scale(x, factor):
    y = torch.empty_like(x)
    scale_kernel[(triton.cdiv(x.numel(), 64),)](x, y, factor, x.numel(), BLOCK=64)
    return y
"""


def write_package(folder: Path) -> None:
    variant = folder / "build" / "torch-universal"
    variant.mkdir(parents=True)
    (variant / "__init__.py").write_text(SOURCE, encoding="utf-8")
    (variant / "metadata.json").write_text(json.dumps(METADATA), encoding="utf-8")


def scales(package: Any) -> None:
    same(lambda x: package.scale(x, 1.5), lambda x: x * 1.5, torch.randn(7, 130))


def from_a_folder() -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_package(Path(folder))
        scales(import_module("kernels").get_local_kernel(Path(folder)))


def from_a_snapshot() -> None:
    """What was downloaded from the hub is in its cache, with the commit that a branch had."""
    commit = "0" * 40
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.object(import_module("kernels.resolver"), "CACHE_DIR", folder),
        patch.object(import_module("huggingface_hub.constants"), "HF_HUB_OFFLINE", True),
    ):
        repository = Path(folder) / "kernels--kernels-community--scaling"
        write_package(repository / "snapshots" / commit)
        (repository / "refs").mkdir()
        (repository / "refs" / "main").write_text(commit, encoding="utf-8")
        scales(import_module("kernels").get_kernel("kernels-community/scaling", revision="main"))


PACKAGES: dict[str, Check] = {"get_local_kernel": later(from_a_folder), "get_kernel": later(from_a_snapshot)}
