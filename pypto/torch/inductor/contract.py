"""Lists the internals of torch on which the backend `pypto-inductor` relies, in one place.

None of them is public, so a new version of torch may rename them. `check` looks for all of them before the first
graph is compiled, and names a missing one with its purpose.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from pypto.errors.inductor import ChangedInside

_CODEGEN: Final = "torch._inductor.codegen"
_RUNTIME: Final = "torch._inductor.runtime"


@dataclass(frozen=True)
class Need:
    """An internal name of torch: its place, its purpose, and the parameters with which it is called or overridden."""

    module: str
    name: str
    purpose: str
    parameters: tuple[str, ...] = ()

    def problem(self) -> str:
        """Describes what is wrong with the name in this torch; empty if nothing is."""
        try:
            value: Any = importlib.import_module(self.module)
            for part in self.name.split("."):
                value = value[part] if isinstance(value, dict) else getattr(value, part)
        except (ImportError, AttributeError, KeyError):
            return f"{self.module} has no {self.name}, which {self.purpose}"
        if not self.parameters:
            return ""
        known = inspect.signature(value).parameters
        lost = [name for name in self.parameters if name not in known]
        return f"{self.module}.{self.name} has no parameter {lost[0]}, and {self.purpose}" if lost else ""


NEEDS: Final = (
    Need("torch._inductor.compile_fx", "compile_fx", "compiles a graph",
         ("model_", "example_inputs_", "inner_compile")),
    Need("torch._inductor.compile_fx", "compile_fx_inner", "compiles a graph that is differentiated already"),
    Need("torch._inductor.config", "cpu_backend", "has passes write Triton for the CPU"),
    Need("torch._inductor.config", "patch", "changes settings for one compilation"),
    Need("torch.compiler.config", "cache_key_tag", "keeps graphs of ours and of Inductor's C++ apart in its cache"),
    Need(f"{_CODEGEN}.common", "init_backend_registration", "fills the table of code generators"),
    Need(f"{_CODEGEN}.common", "device_codegens", "is the table of code generators"),
    Need(f"{_CODEGEN}.common", "DeviceCodegen", "is a row of that table",
         ("scheduling", "wrapper_codegen", "cpp_wrapper_codegen", "fx_wrapper_codegen")),
    Need(f"{_CODEGEN}.triton", "TritonScheduling.kernel_type", "is the class that writes kernels"),
    Need(f"{_CODEGEN}.triton", "TritonScheduling.create_kernel_choices", "chooses the kernel for a scan",
         ("kernel_features", "kernel_args", "kernel_kwargs")),
    Need(f"{_CODEGEN}.triton", "TritonKernel.has_persistent_RBLOCK", "says whether a reduction fits one block",
         ("rnumel",)),
    Need(f"{_CODEGEN}.simd_kernel_features", "SIMDKernelFeatures.contains_op", "says whether a kernel sorts",
         ("op_name",)),
    Need(f"{_CODEGEN}.triton", "TritonScheduling.get_nd_tilings", "lists the tilings of a kernel",
         ("node_schedule", "pointwise_numel", "reduction_numel")),
    Need(f"{_CODEGEN}.block_analysis", "BlockPatternMatcher.match_mod_div_block_expr", "splits dimensions of a kernel",
         ("index", "index_var", "numel", "num_dims")),
    Need("torch._inductor.choices", "InductorChoices.triton_kernel_kwargs", "says how a kernel is written",
         ("kernel_cls", "features", "groups", "kernel_kwargs")),
    Need(f"{_CODEGEN}.triton", "TritonKernel.gen_common_triton_imports", "writes the imports of a kernel"),
    Need(f"{_CODEGEN}.triton", "TritonKernel.inductor_meta_common", "writes what Inductor's tuner is told"),
    Need(f"{_CODEGEN}.triton", "TritonScheduling.define_kernel", "defines a kernel",
         ("src_code", "node_schedule", "kernel")),
    Need("torch._inductor.utils", "aggregate_origins", "gives the nodes of a kernel", ("node_schedule",)),
    Need(f"{_CODEGEN}.wrapper", "PythonWrapperCodegen._define_kernel_helper", "writes the definition of a kernel",
         ("kernel_name",)),
    Need(f"{_CODEGEN}.wrapper", "PythonWrapperCodegen.create", "makes the writer of the calls",
         ("is_subgraph", "subgraph_name", "parent_wrapper", "partition_signatures")),
    Need(f"{_CODEGEN}.wrapper", "PythonWrapperCodegen.write_header", "writes the imports of the calls"),
    Need(f"{_CODEGEN}.wrapper", "PythonWrapperCodegen.write_triton_header_once", "writes an import of Triton"),
    Need(f"{_CODEGEN}.wrapper", "PythonWrapperCodegen.prepare_triton_kernel_call", "writes the arguments of a call",
         ("call_args",)),
    Need(f"{_CODEGEN}.wrapper", "PythonWrapperCodegen._generate_kernel_call_helper", "writes a call",
         ("kernel_name", "call_args")),
    Need(f"{_CODEGEN}.wrapper", "SubgraphPythonWrapperCodegen", "writes the calls of a graph inside of another"),
    Need("torch._higher_order_ops.triton_kernel_wrap", "clone_preserve_strides", "copies what a user's kernel writes",
         ("x",)),
    Need("torch._inductor.async_compile", "AsyncCompile.triton", "makes a kernel of its text",
         ("kernel_name", "source_code", "device_str")),
    Need(f"{_RUNTIME}.triton_heuristics", "Grid1D", "says what the grid of a kernel is", ("inductor_meta",)),
    Need(f"{_RUNTIME}.triton_heuristics", "GridExpr.generate", "writes the sizes of a grid", ("meta",)),
    Need(f"{_RUNTIME}.hints", "AttrsDescriptorWrapper", "is written into kernels where no Triton is installed"),
    Need(f"{_RUNTIME}.triton_compat", "HAS_TRITON", "is the module through which helpers see Triton"),
    Need(f"{_RUNTIME}.triton_helpers", "set_driver_to_cpu", "is called by every kernel for the CPU"),
    Need("torch._dynamo.eval_frame", "innermost_fn", "finds the function that was compiled"),
    Need("torch._dynamo.eval_frame", "_debug_get_cache_entry_list", "finds the graphs of a compiled function", ()),
)  # fmt: skip

# Without these, kernels are compiled by their first launches.
AHEAD: Final = (
    Need(f"{_CODEGEN}.wrapper", "PythonWrapperCodegen.define_kernel", "is given the expression that makes a kernel",
         ("kernel_name", "kernel_body")),
    Need(f"{_CODEGEN}.wrapper", "PythonWrapperCodegen.generate_kernel_call", "is given the arguments of a call",
         ("kernel_name", "call_args")),
    Need("torch._inductor.graph", "GraphLowering.try_get_buffer", "finds the buffer of an argument", ("buffer_name",)),
    Need("torch._inductor.sizevars", "SizeVarAllocator.optimization_hint", "says how large a size is", ("expr",)),
    Need("torch._inductor.ir", "NonOwningLayout", "is the layout of a part of a buffer", ("view",)),
)  # fmt: skip

_CPP: Final = f"{_CODEGEN}.cpp_wrapper_cpu"
# For calls of kernels in C++.
CPP: Final = (
    Need(_CPP, "CppWrapperCpu._define_kernel_helper", "writes the definition of a kernel",
         ("kernel_name", "kernel_body")),
    Need(_CPP, "CppWrapperCpu._generate_kernel_call_helper", "writes a call",
         ("kernel_name", "call_args", "triton_meta")),
    Need(_CPP, "CppWrapperCpu.codegen_tensor_item", "reads a tensor without axes", ("dtype", "tensor", "scalar")),
    Need(_CPP, "CppWrapperCpu.finalize_prefix", "writes what stands before the calls"),
    Need(_CPP, "CppWrapperCpu.generate_end", "has the C++ compiled", ("result",)),
    Need(_CPP, "CppWrapperCpu.write_header", "writes imports"),
    Need(f"{_CODEGEN}.cpp_utils", "cexpr", "writes a size"),
    Need(f"{_CODEGEN}.triton_utils", "should_unwrap_unspec_arg", "says which tensors are numbers", ("name",)),
    Need("torch._inductor.codecache", "CppPythonBindingsCodeCache.load_pybinding_async", "compiles C++",
         ("main_code", "extra_flags")),
    Need("torch._inductor.codecache", "write_atomic", "writes a file of the cache", ("path_", "content", "make_dirs")),
    Need(f"{_RUNTIME}.cache_dir_utils", "cache_dir", "is the folder of the cache"),
    Need(f"{_RUNTIME}.triton_heuristics", "GridExpr", "writes a grid in C++", ("inductor_meta", "mode")),
)  # fmt: skip

_SELECT: Final = "torch._inductor.select_algorithm"
_BLOCKS: Final = "torch._inductor.template_heuristics.triton"
TEMPLATES: Final = (
    Need(_SELECT, "TritonTemplate.kernel_type", "is the class that writes templates"),
    Need(_SELECT, "TritonTemplateKernel.gen_common_triton_imports", "writes the imports of a template"),
    Need(_SELECT, "TritonTemplateKernel.inductor_meta_common", "writes what Inductor's tuner is told"),
    Need(_SELECT, "NoValidChoicesError", "says that all candidates failed"),
    Need("torch._inductor.autotune_process", "TritonCPUBenchmarkRequest.make_run_fn", "launches a candidate", ("out",)),
    Need("torch._inductor.choices", "InductorChoices.get_ktc", "lists candidates",
         ("kernel_inputs", "template", "op_name", "kwarg_overrides")),
    Need("torch._inductor.choices", "InductorChoices.get_conv_configs", "lists candidates of a convolution"),
    Need("torch._inductor.choices", "InductorChoices.get_depthwise_conv_configs", "lists those of depthwise ones"),
    Need("torch._inductor.choices", "make_ktc_generator", "makes candidates",
         ("template", "cs", "extra_kwargs", "overrides", "layout", "inputs")),
    Need("torch._inductor.virtualized", "V.set_choices_handler", "has Inductor ask us for candidates"),
    *(Need(_BLOCKS, f"{name}._get_config_generator", "says which blocks are tried") for name in (
        "CPUMMTemplateConfigHeuristic", "CPUAddmmTemplateConfigHeuristic", "CPUMMPlusMMTemplateConfigHeuristic",
        "CPUInt8MMTemplateConfigHeuristic")),
    Need(f"{_RUNTIME}.triton_heuristics", "FixedGrid", "is the grid of a template", ("inductor_meta",)),
)  # fmt: skip


def check(needs: Iterable[Need] = NEEDS) -> None:
    """Checks that this torch has all needed names.

    Raises
    ------
    ChangedInside
        With the first name that is not there.
    """
    problem = next(filter(None, (need.problem() for need in needs)), "")
    if problem:
        version = importlib.import_module("torch").__version__
        raise ChangedInside(version=version, problem=problem)


@functools.cache
def tells_of_calls() -> bool:
    """Says whether torch has the names by which kernels are compiled ahead of their launches."""
    return not any(need.problem() for need in AHEAD)


@functools.cache
def checked(tuned: bool = False) -> None:
    """Checks the needs of the backend once in a process; with those of templates where candidates are measured."""
    check((*NEEDS, *TEMPLATES) if tuned else NEEDS)
