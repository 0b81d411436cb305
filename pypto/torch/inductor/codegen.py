"""Inductor's code generator for Triton, with what differs where pypto compiles the text."""

from __future__ import annotations

import importlib
from typing import Any

triton: Any = importlib.import_module("torch._inductor.codegen.triton")
wrapper: Any = importlib.import_module("torch._inductor.codegen.wrapper")
common: Any = importlib.import_module("torch._inductor.codegen.common")
virtualized: Any = importlib.import_module("torch._inductor.virtualized")

_IMPORTS = """
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers, triton_heuristics
from torch._inductor.runtime.triton_helpers import libdevice, math as tl_math
from torch._inductor.runtime.hints import AutotuneHint, ReductionHint, TileHint, DeviceProperties
from torch._inductor.runtime.hints import AttrsDescriptorWrapper as AttrsDescriptor
"""


class Kernel(triton.TritonKernel):  # type: ignore[misc]
    """Writes the text of one kernel."""

    @classmethod
    def gen_common_triton_imports(cls) -> str:
        """What the text imports; `load.py` serves it, whatever Triton is installed."""
        return _IMPORTS

    @classmethod
    def inductor_meta_common(cls) -> dict[str, Any]:
        """Nothing: Inductor's is for its own tuner."""
        return {}


class Scheduling(triton.TritonScheduling):  # type: ignore[misc]
    """Fuses nodes of the graph into kernels."""

    kernel_type = Kernel
    backend_features = triton.TritonScheduling.backend_features - {common.BackendFeature.TRITON_TEMPLATES}

    def create_kernel_choices(self, kernel_features: Any, kernel_args: Any, kernel_kwargs: dict[str, Any]) -> list[Any]:
        """One kernel. A scan is not split over programs, which would wait for each other as on a GPU.

        A sort needs all its elements in one block. Of an unknown number of them there is no such block.
        """
        if kernel_features.contains_op("scan") or kernel_features.contains_op("sort"):
            kernel_kwargs["override_cooperative_reduction"] = False
        if kernel_features.contains_op("sort"):
            kernel_kwargs["override_persistent_reduction"] = True
        if not Kernel.has_persistent_RBLOCK(kernel_features.reduction_numel):
            kernel_kwargs["override_persistent_reduction"] = False
        chosen = virtualized.V.choices.triton_kernel_kwargs(Kernel, kernel_features, kernel_args, kernel_kwargs)
        return [Kernel(*kernel_args, **chosen)]


class Calls:
    """Writes calls of kernels: their blocks and grids are theirs to know, and a CPU has no streams."""

    def _generate_kernel_call_helper(self: Any, kernel_name: str, call_args: Any, **given: Any) -> None:
        arguments = ", ".join(self.prepare_triton_kernel_call(call_args))
        self.writeline(f"{kernel_name}.run({arguments})")

    def write_triton_header_once(self) -> None:
        """No import of Triton: no line needs it."""


class Wrapper(Calls, wrapper.PythonWrapperCodegen):  # type: ignore[misc]
    """Writes the Python that allocates buffers and calls kernels."""

    @staticmethod
    def create(is_subgraph: bool, name: Any, parent: Any, partition_signatures: Any = None) -> Any:
        """The writer for a graph, or for one inside of it."""
        return Subgraph(name, parent, partition_signatures) if is_subgraph else Wrapper()

    def write_header(self) -> None:
        """Imports, of which the last one has kernels made by us."""
        super().write_header()
        self.imports.writeline("from pypto.torch.inductor.load import AsyncCompile")


class Subgraph(Calls, wrapper.SubgraphPythonWrapperCodegen):  # type: ignore[misc]
    """Writes the Python for a graph inside of another: the branch of a condition."""
