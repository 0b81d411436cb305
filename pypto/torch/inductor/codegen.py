"""Overrides Inductor's Triton code generator, so that it writes text that pypto compiles."""

from __future__ import annotations

import importlib
from typing import Any, Final

from pypto.torch.inductor import ahead, tilings
from pypto.torch.inductor.load import IMPORTS
from pypto.torch.inductor.origins import model_lines

triton: Any = importlib.import_module("torch._inductor.codegen.triton")
wrapper: Any = importlib.import_module("torch._inductor.codegen.wrapper")
common: Any = importlib.import_module("torch._inductor.codegen.common")
virtualized: Any = importlib.import_module("torch._inductor.virtualized")
utils: Any = importlib.import_module("torch._inductor.utils")
torch: Any = importlib.import_module("torch")

_BODIES: Final = "pypto_bodies"  # of a writer: from the name of a kernel to the expression that makes it
_LINES: Final = "pypto_model_lines"  # of a writer: from the name of a kernel to lines of the model


class Kernel(triton.TritonKernel):  # type: ignore[misc]
    """The writer of the text of one kernel."""

    @classmethod
    def gen_common_triton_imports(cls) -> str:
        """Returns the imports of the text; `load.py` provides them, whatever Triton is installed."""
        return IMPORTS

    @classmethod
    def inductor_meta_common(cls) -> dict[str, Any]:
        """Returns no metadata, since Inductor's is for its own tuner."""
        return {}


class Scheduling(triton.TritonScheduling):  # type: ignore[misc]
    """The scheduler, which fuses nodes of the graph into kernels."""

    kernel_type = Kernel

    @classmethod
    def get_nd_tilings(cls, *given: Any) -> list[Any]:
        """Returns all tilings of a kernel; it skips searches that cannot succeed."""
        with tilings.quick():
            every: list[Any] = super().get_nd_tilings(*given)
        return every

    def create_kernel_choices(self, kernel_features: Any, kernel_args: Any, kernel_kwargs: dict[str, Any]) -> list[Any]:
        """Returns one kernel, with choices that are legal on a CPU.

        A scan is not split over programs, since they would wait for each other. A sort is a persistent reduction, as it
        needs all its elements in one block. A reduction of unknown or large length has no such block.
        """
        if kernel_features.contains_op("scan") or kernel_features.contains_op("sort"):
            kernel_kwargs["override_cooperative_reduction"] = False
        if kernel_features.contains_op("sort"):
            kernel_kwargs["override_persistent_reduction"] = True
        if not Kernel.has_persistent_RBLOCK(kernel_features.reduction_numel):
            kernel_kwargs["override_persistent_reduction"] = False
        chosen = virtualized.V.choices.triton_kernel_kwargs(Kernel, kernel_features, kernel_args, kernel_kwargs)
        return [Kernel(*kernel_args, **chosen)]

    def define_kernel(self, src_code: str, node_schedule: Any, kernel: Any) -> str:
        """Defines a kernel, or finds one with equal text, and records which lines of the model it computes."""
        name: str = super().define_kernel(src_code, node_schedule, kernel)
        lines = model_lines(utils.aggregate_origins(node_schedule), torch)
        known = vars(virtualized.V.graph.wrapper_code).setdefault(_LINES, {})
        known[name] = sorted({*known.get(name, ()), *lines})
        return name


def lines_of(writer: Any, kernel: str) -> list[tuple[str, int, str]]:
    """Returns the lines of the model that a writer has recorded for a kernel."""
    return [tuple(line) for line in getattr(writer, _LINES, {}).get(kernel, ())]


class Calls:
    """The part of a wrapper that writes kernels and calls: kernels choose their grids, and a CPU has no streams."""

    def define_kernel(self: Any, kernel_name: str, kernel_body: str, *given: Any, **named: Any) -> None:
        super().define_kernel(kernel_name, kernel_body, *given, **named)  # type: ignore[misc]
        vars(self).setdefault(_BODIES, {})[kernel_name] = kernel_body

    def generate_kernel_call(self: Any, kernel_name: str, call_args: Any, **given: Any) -> None:
        """Writes a call. At the first call of a kernel, a worker begins to compile it."""
        super().generate_kernel_call(kernel_name, call_args, **given)  # type: ignore[misc]
        body = getattr(self, _BODIES, {}).pop(kernel_name, None)
        if body is not None and (workers := ahead.WORKERS.get()) is not None:
            workers.compile(body, call_args, virtualized.V.graph)

    def _define_kernel_helper(self: Any, kernel_name: str, *given: Any, **named: Any) -> None:
        super()._define_kernel_helper(kernel_name, *given, **named)  # type: ignore[misc]
        if lines := lines_of(self, kernel_name):
            self.header.writeline(f"{kernel_name}.set_origins({lines!r})")

    def _generate_kernel_call_helper(self: Any, kernel_name: str, call_args: Any, **given: Any) -> None:
        arguments = ", ".join(self.prepare_triton_kernel_call(call_args))
        self.writeline(f"{kernel_name}.run({arguments})")

    def write_triton_header_once(self) -> None:
        """Writes no import of Triton, since no line needs it."""


class Wrapper(Calls, wrapper.PythonWrapperCodegen):  # type: ignore[misc]
    """The writer of the Python that allocates buffers and calls kernels."""

    @staticmethod
    def create(is_subgraph: bool, name: Any, parent: Any, partition_signatures: Any = None) -> Any:
        """Returns the writer for a graph, or for a subgraph of it."""
        if is_subgraph:
            return Subgraph(name, parent, partition_signatures)
        if (workers := ahead.WORKERS.get()) is not None:
            workers.start()
        return Wrapper()

    def write_header(self) -> None:
        """Writes the imports; the last one provides pypto's `AsyncCompile`, which builds the kernels."""
        super().write_header()
        self.imports.writeline("from pypto.torch.inductor.load import AsyncCompile")


class Subgraph(Calls, wrapper.SubgraphPythonWrapperCodegen):  # type: ignore[misc]
    """The writer of the Python for a subgraph, such as a branch of a condition."""
