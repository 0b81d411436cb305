"""Hugging Face's `kernels`: a package of Triton kernels in the hub's layout, loaded from a folder."""

from __future__ import annotations

import json
import tempfile
from importlib import import_module
from pathlib import Path

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


def from_a_folder() -> None:
    with tempfile.TemporaryDirectory() as folder:
        variant = Path(folder) / "build" / "torch-universal"
        variant.mkdir(parents=True)
        (variant / "__init__.py").write_text(SOURCE, encoding="utf-8")
        (variant / "metadata.json").write_text(json.dumps(METADATA), encoding="utf-8")
        package = import_module("kernels").get_local_kernel(Path(folder))
        same(lambda x: package.scale(x, 1.5), lambda x: x * 1.5, torch.randn(7, 130))


PACKAGES: dict[str, Check] = {"get_local_kernel": later(from_a_folder)}
