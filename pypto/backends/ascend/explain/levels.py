"""The texts of a kernel on its way to an Ascend chip: Block IR and Ascend C."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pypto.backends.ascend.backend import Code
from pypto.backends.ascend.blockir.ir import BlockKernel
from pypto.backends.ascend.blockir.printer import listing
from pypto.backends.ascend.pipeline import lower_to_text
from pypto.backends.ascend.target import AscendTarget
from pypto.backends.base import Artifact, Show
from pypto.ir.core import Function
from pypto.passes import optimize


def shows(target: AscendTarget) -> Mapping[str, Show]:
    """From the source down. Only the level that is called for is made."""

    def block_ir(function: Function, artifact: Artifact, places: bool) -> str:
        return listing(block_kernel(function, target))

    def ascendc(function: Function, artifact: Artifact, places: bool) -> str:
        return Code.from_bytes(artifact.code).text

    return MappingProxyType({"block-ir": block_ir, "ascendc": ascendc})


def block_kernel(function: Function, target: AscendTarget) -> BlockKernel:
    """Block IR of a prepared function."""
    return lower_to_text(optimize(function), target)[0]
