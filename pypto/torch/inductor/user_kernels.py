"""Runs Triton kernels of users in graphs: with their constants, their configurations, and grids for each of these.

Inductor writes the text of such a kernel into the generated Python, with the functions that it calls. What else it
needs is in the decorator: values of constants, configurations of `triton.autotune`, arrays to restore, and an
expression for the grid of each configuration.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pypto.compat.triton.kernels import JITFunction
from pypto.jit.direct import Direct
from pypto.torch.inductor.generated import Blocks, Generated, place
from pypto.tuning import Autotuner, Config

_HINTS = ("num_warps", "num_stages", "num_ctas", "maxnreg")  # of a configuration, for GPUs


class UserKernel(Generated):
    """A kernel that a user wrote, in the graph of a model.

    Parameters
    ----------
    fn : JITFunction
    configs : list of dict
        Its configurations. The first launch measures them, if there are several; in C++ the first one is used.
    triton_meta : dict
        Values of its constants, and the arrays to restore or reset between the runs of a measurement.
    meta : dict
        The grid of each configuration.
    """

    def __init__(
        self, fn: JITFunction, configs: Sequence[Blocks], triton_meta: Mapping[str, Any], meta: Mapping[str, Any]
    ) -> None:
        self.constants = dict(triton_meta["constants"])
        self.configs = [dict(config) for config in configs]
        self.reset, self.restored = (list(triton_meta.get(name, ())) for name in ("reset_to_zero", "restore_value"))
        super().__init__(fn, {**self.constants, **(self.configs[0] if self.configs else {})}, meta)
        if len(self.configs) > 1:
            self.run = self.measured

    def given(self) -> list[str]:
        """Returns the parameters that calls pass: all but those that the user declared as constants."""
        return [p.name for p in self.fn.params if not p.is_constexpr]

    def measured(self, *arguments: Any) -> None:
        """Launches with the quickest configuration, which is found by measurement; later launches use it."""
        configs = [as_config(x) for x in self.configs]
        tuner = Autotuner(self.fn, self.fn.arg_names, configs, [], self.reset, self.restored)
        values = {**dict(zip(self.names, arguments, strict=True)), **self.constants}
        values = {name: x for name, x in values.items() if name in self.fn.arg_names}
        places = [place(self.fn, {**self.constants, **config}, self.meta, self.names) for config in self.configs]

        def grid(meta: Mapping[str, Any]) -> Any:
            fits = (all(meta.get(n, x) == x for n, x in config.items()) for config in self.configs)
            sizes, _ = places[list(fits).index(True)](*arguments)
            return sizes

        tuner.run(grid=grid, warmup=False, **values)
        assert tuner.best_config is not None
        chosen = next(x for x in self.configs if as_config(x) == tuner.best_config)
        self.blocks = {**self.constants, **chosen}
        self.place = place(self.fn, self.blocks, self.meta, self.names)
        self.run = Direct(self.kernel, self.names, self.place).run


def as_config(config: Blocks) -> Config:
    """Returns a configuration as an object; hints for GPUs are no constants."""
    hints = {name: x for name, x in config.items() if name in _HINTS}
    return Config({name: x for name, x in config.items() if name not in _HINTS}, **hints)


def imports(kernel: JITFunction, modules: Mapping[str, Any]) -> list[str]:
    """Returns imports for the global names in a kernel that are names of Triton.

    Inductor writes them for objects that say they are of Triton, and ours do not.

    Examples
    --------
    A kernel behind ``from triton.language import load as fetch`` needs ``from triton.language import load as fetch``.
    """
    served = {id(x): (place, name) for place in ("triton.language.extra.libdevice", "triton.language")
              for name, x in vars(modules[place]).items() if not name.startswith("_")}  # fmt: skip
    names = ((name, served.get(id(value))) for name, value in sorted(globals_of(kernel, set()).items()))
    return [f"from {source[0]} import {source[1]} as {name}" for name, source in names if source and name != "tl"]


def globals_of(kernel: JITFunction, seen: set[int]) -> dict[str, Any]:
    """Returns the global names that a kernel and those that it calls read, with their values."""
    seen.add(id(kernel))
    code, outer = kernel.fn.__code__, kernel.fn.__globals__
    read = {x.argval for x in dis.Bytecode(code) if x.opname == "LOAD_GLOBAL" and x.argval in outer}
    values = {name: outer[name] for name in read}
    for value in list(values.values()):
        if isinstance(value, JITFunction) and id(value) not in seen:
            values = {**globals_of(value, seen), **values}
    return values


@contextmanager
def clones(triton_kernel_wrap: Any) -> Iterator[None]:
    """Has an array that a kernel writes, and that has to be kept too, be copied as it is, inside of a `with` block.

    torch copies the memory in front of a view too, which in a graph of Inductor may be the memory of another array.
    """
    before = triton_kernel_wrap.clone_preserve_strides
    triton_kernel_wrap.clone_preserve_strides = lambda x: x.clone() if is_dense(x) else before(x)
    try:
        yield
    finally:
        triton_kernel_wrap.clone_preserve_strides = before


def is_dense(x: Any) -> bool:
    """Says whether a tensor has no gaps between its elements, so that a copy of it has the same strides."""
    return bool(x.is_contiguous())
