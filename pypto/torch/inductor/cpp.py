"""Writes Inductor's C++ wrapper, which allocates and calls; kernels are compiled ahead of time and linked into it.

A kernel is compiled for stand-ins of the buffers that its calls are given, as a version of the interface in C that
`pypto.tools.aot` writes. All versions of a graph are one object, which the C++ compiler links with the calls. Its bytes
stand in the generated Python, so that a graph from torch's cache needs no file of ours.
"""

from __future__ import annotations

import base64
import functools
import importlib
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from pypto.arguments import describe
from pypto.backends import registry
from pypto.compile import session
from pypto.errors import OptionError
from pypto.errors.aot import NotAhead
from pypto.errors.inductor import ChangedInside
from pypto.ir.types import DTYPE_BY_NAME
from pypto.options import KernelOptions
from pypto.runtime.launch import disjoint, overlaps
from pypto.tools.aot.build import one, symbol
from pypto.tools.aot.contract import ABI, Version
from pypto.tools.aot.header import header
from pypto.torch.inductor import contract
from pypto.torch.inductor.ahead import StandIn, hint, stand_in
from pypto.torch.inductor.codegen import lines_of
from pypto.torch.inductor.generated import Generated, grid_of
from pypto.torch.inductor.load import unlisted

cpp_wrapper: Any = importlib.import_module("torch._inductor.codegen.cpp_wrapper_cpu")
cpp_utils: Any = importlib.import_module("torch._inductor.codegen.cpp_utils")
triton_utils: Any = importlib.import_module("torch._inductor.codegen.triton_utils")
utils: Any = importlib.import_module("torch._inductor.utils")
virtualized: Any = importlib.import_module("torch._inductor.virtualized")

LOADER: Final = "CppWrapperCodeCache.load_pybinding("  # as generated Python calls the C++ compiler
_SUPPORT: Final = """
#include <stdexcept>
#include <string>
namespace at { int get_num_threads(); }

// A buffer as kernels see it: elements from its first byte to its last one.
struct pypto_buffer {
    int64_t span = 1, step = 1;
    pypto_array array;
    pypto_buffer(AtenTensorHandle tensor, int32_t dtype) {
        void *data; int64_t dims, *sizes, *strides;
        AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_get_data_ptr(tensor, &data));
        AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_get_dim(tensor, &dims));
        AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_get_sizes(tensor, &sizes));
        AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_get_strides(tensor, &strides));
        bool empty = false;
        for (int64_t dim = 0; dim < dims; ++dim) {
            empty = empty || sizes[dim] == 0;
            span += (sizes[dim] - 1) * strides[dim];
        }
        if (empty) span = 0;
        array = {data, dtype, 1, &span, &step};
    }
};

static void pypto_done(int32_t status, const char *kernel) {
    if (status == PYPTO_OK) return;
    throw std::runtime_error(std::string(kernel) + " was not run: status " + std::to_string(status));
}
"""


@dataclass
class KernelCalls:
    """A kernel and what its calls in C++ pass: values of parameters, and which of them are inputs of the graph.

    This is a record of compile time and no launch list: it has stand-ins for arrays, no order among kernels and no
    memory. It says for which types and overlaps the kernel is compiled; the C++ of the wrapper allocates and launches.
    """

    body: str
    kernel: Generated
    calls: list[tuple[dict[str, Any], frozenset[str]]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return symbol(self.kernel.name)

    def versions(self, level: str) -> list[tuple[Version, tuple[Any, ...]]]:
        """Returns the versions to compile: one for the first call, and one for overlaps if a call may have any."""
        given = self.calls[0][0]
        versions = [self.version(given, 0, level)]
        first = versions[0][0]
        written = frozenset(p.name for p in first.arrays if p.is_written)
        if first.noalias and any(
            written & inputs or not self.disjoint_from(call, written) for call, inputs in self.calls
        ):
            shared = {name: replace(x, address=1 << 40) if isinstance(x, StandIn) else x for name, x in given.items()}
            versions.append(self.version(shared, 1, level))
        return versions

    def version(self, given: dict[str, Any], number: int, level: str) -> tuple[Version, tuple[Any, ...]]:
        return one(self.kernel.kernel, given, f"pypto{ABI}_{self.name}_{number}", [level])

    def disjoint_from(self, given: dict[str, Any], written: frozenset[str]) -> bool:
        """Says whether the arrays that a call writes share no memory with its other arrays."""
        signature = self.kernel.kernel.signature
        infos, _ = describe(signature, tuple(given[name] for name in signature.names))
        return disjoint(*overlaps(written, infos))

    def text(self, versions: Sequence[Version]) -> str:
        """Returns the C++ function that the calls name: it computes the grid, and calls the version that fits."""
        names, kinds = self.kernel.names, {p.name: p for p in versions[0].given}
        arrays = [name for name in names if name in kinds and kinds[name].kind == "array"]
        numbers = {name: f"double {name}" if is_float(kinds.get(name)) else f"int64_t {name}" for name in names}
        parameters = [f"AtenTensorHandle {name}_" if name in arrays else numbers[name] for name in names]
        code = {name: f"PYPTO_{DTYPE_BY_NAME[kinds[name].dtype].public.upper()}" for name in arrays}
        grid = grid_of(self.kernel.meta, self.kernel.blocks, "cpp")
        passed = [f"&{name}.array" if name in arrays else name for name in kinds]
        lines = [
            f"static void call_{self.kernel.name}({', '.join(parameters)}) {{",
            *(f"    const pypto_buffer {name}({name}_, {code[name]});" for name in arrays),
            *(f"    {line}" for line in grid.prefix),
            f"    const int64_t grid[3] = {{{grid.x_grid}, {grid.y_grid}, {grid.z_grid}}};",
            f"    pypto_done({self.name}({', '.join(('grid', 'at::get_num_threads()', *passed))}), "
            f'"{self.kernel.name}");',
            "}",
        ]
        return "\n".join(lines)


def is_float(parameter: Any) -> bool:
    return parameter is not None and DTYPE_BY_NAME[parameter.dtype].is_float


class Scalar(str):
    """The name of a tensor without axes that a kernel takes as a number, with its dtype."""

    __slots__ = ("dtype",)
    dtype: Any


def named(argument: Any) -> Any:
    """Returns an argument of a call; the name of a tensor that is passed as a number becomes a `Scalar`."""
    if not isinstance(argument, str) or not triton_utils.should_unwrap_unspec_arg(argument):
        return argument
    scalar = Scalar(argument)
    scalar.dtype = virtualized.V.graph.get_dtype(argument)
    return scalar


class CppWrapper(cpp_wrapper.CppWrapperCpu):  # type: ignore[misc]
    """The writer of the C++ that allocates buffers and calls kernels, and of the Python that has it compiled."""

    prefix: Any

    def __init__(self) -> None:
        super().__init__()
        self.pypto_called: dict[str, KernelCalls] = {}
        self.pypto_object = b""

    @staticmethod
    def create(is_subgraph: bool, name: Any, parent: Any, partition_signatures: Any = None) -> Any:
        """Returns the writer for a graph; a subgraph has a writer of this class too."""
        contract.check(contract.CPP)
        return CppWrapper()

    def define_kernel(self, kernel_name: str, kernel_body: str, *given: Any, **named: Any) -> None:
        """Builds the kernel, which is compiled when all its calls are known.

        The kernel of a user has a name of its own in each graph, since constants of its calls may differ.
        """
        kernel = eval(kernel_body, {"async_compile": SimpleNamespace(triton=unlisted)})
        kernel.named(kernel_name, kernel.source)
        self.pypto_called[kernel_name] = KernelCalls(kernel_body, kernel)
        super().define_kernel(kernel_name, kernel_body, *given, **named)

    def _define_kernel_helper(self, kernel_name: str, kernel_body: str, *given: Any, **named: Any) -> None:
        """Writes nothing, since the kernel is linked."""

    def generate_kernel_call(self, kernel_name: str, call_args: Any, **given: Any) -> None:
        """Writes a call, and records placeholders for its arguments, which the graph describes only now."""
        called, graph = self.pypto_called[kernel_name], virtualized.V.graph
        types = (given.get("triton_meta") or {}).get("signature", {})
        rows = list(zip(called.kernel.names, map(named, call_args), strict=True))
        values = {name: self.value(called, x, types.get(name, "")) for name, x in rows}
        known = {**values, **called.kernel.blocks}
        given_by_caller = frozenset(name for name, x in rows if isinstance(x, str) and x in graph.graph_inputs)
        called.calls.append(({name: known[name] for name in called.kernel.kernel.signature.names}, given_by_caller))
        super().generate_kernel_call(kernel_name, [x for _, x in rows], **given)

    def _generate_kernel_call_helper(self, kernel_name: str, call_args: Any, **given: Any) -> None:
        self.writeline(self.wrap_kernel_call(f"call_{kernel_name}", [self.argument(x) for x in call_args]))

    def value(self, called: KernelCalls, argument: Any, kind: str) -> Any:
        """Returns the placeholder of an argument for the compilation of a version.

        A buffer is flat memory, and an integer is 2, since 1 would be compiled as a constant.
        """
        graph = virtualized.V.graph
        if not isinstance(argument, str):
            number = hint(argument, graph)
        elif isinstance(argument, Scalar):
            number = 2
        else:
            tensor = stand_in(argument, graph, self.pypto_roots)
            if tensor is None:
                raise NotAhead(kernel=called.kernel.name, problem=f"{argument} is no buffer of the graph")
            return flat(tensor)
        if kind in ("fp32", "fp64", "fp16", "bf16"):
            return np.float64(number) if kind == "fp64" else np.float32(number)
        if isinstance(number, bool) or kind in ("i1", "u1"):
            return bool(number)
        return np.int32(2) if kind == "i32" else np.int64(2)

    @functools.cached_property
    def pypto_roots(self) -> dict[str, int]:
        """Returns the addresses of buffers that own their memory."""
        return {}

    def argument(self, argument: Any) -> str:
        """Returns an argument as a C++ expression."""
        graph = virtualized.V.graph
        if isinstance(argument, Scalar):
            scalar = f"{argument}_number_{next(self.arg_var_id)}"
            self.codegen_tensor_item(argument.dtype, argument, scalar)
            return scalar
        if isinstance(argument, str):
            return argument
        if isinstance(argument, bool):
            return str(argument).lower()
        if isinstance(argument, int | float) or hasattr(argument, "inner_expr"):
            return str(argument)
        expression: str = cpp_utils.cexpr(graph.sizevars.simplify(argument))
        return expression

    def finalize_prefix(self) -> None:
        """Writes the functions of the kernels in front of their calls, which name them."""
        super().finalize_prefix()
        before, self.prefix = self.prefix, utils.IndentedBuffer()
        for text in self.compiled():
            self.prefix.splice(text)
        self.prefix.splice(before)

    def compiled(self) -> Iterator[str]:
        """Compiles all kernels that are called, and yields their C++."""
        ahead, level, entries, support = registry.host().ahead(), best_level(), [], _SUPPORT
        for called in self.pypto_called.values():
            if called.calls:
                compiled_versions = called.versions(level)
                entries += [ahead.Entry(*entry) for _, entry in compiled_versions]
                versions = [version for version, _ in compiled_versions]
                yield header(called.name, called.kernel.name, versions)
                yield support
                yield called.text(versions)
                support = ""
        self.pypto_object = ahead.object_code(entries, {}) if entries else b""

    def generate_end(self, result: Any) -> None:
        """Writes the end of the C++, its compilation with the object of the kernels, and kernels for `kernels()`."""
        buffer = utils.IndentedBuffer()
        super().generate_end(buffer)
        text = buffer.getvalue()
        if LOADER not in text:
            version = importlib.import_module("torch").__version__
            raise ChangedInside(version=version, problem=f"its C++ is not compiled by {LOADER}…)")
        data = base64.b85encode(zlib.compress(self.pypto_object)).decode()
        result.splice(text.replace(LOADER, f"linked({LOADER.rstrip('(')}, {data!r})("))
        for name, called in self.pypto_called.items():
            result.writeline(f"{name} = {called.body}")
            if lines := lines_of(self, name):
                result.writeline(f"{name}.set_origins({lines!r})")

    def write_header(self) -> None:
        """Writes the imports of the generated Python."""
        super().write_header()
        self.imports.writeline("from pypto.torch.inductor.load import AsyncCompile, linked")
        self.imports.writeline("async_compile = AsyncCompile()")


def flat(buffer: StandIn) -> StandIn:
    """Returns the memory of a buffer as one axis, since kernels count its elements from the first one."""
    steps = ((n - 1) * step for n, step in zip(buffer.shape, buffer.strides, strict=True))
    span = 0 if 0 in buffer.shape else 1 + sum(steps)
    return replace(buffer, shape=(max(2, span),), strides=(1,))


def best_level() -> str:
    """Returns the feature level to compile for: the one that is set, or the best one of this CPU."""
    ahead, wanted = registry.host().ahead(), session().settings.level
    for level in reversed(ahead.levels()):
        with suppress(OptionError):
            if wanted in ("", "host", level):
                session().backend(KernelOptions(level=level))
                return str(level)
    return str(ahead.levels()[0])
