"""Runs Triton kernels of users in graphs: with their constants, their configurations, and grids for each of these.

Inductor writes the text of such a kernel into the generated Python, with the functions that it calls. What else it
needs is in the decorator: values of constants, configurations of `triton.autotune`, arrays to restore, and an
expression for the grid of each configuration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pypto.compat.triton.copies import copied
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
        self.defaults = defaults(fn, triton_meta)
        self.constants = {**self.defaults, **triton_meta["constants"]}
        self.configs = [dict(config) for config in configs]
        self.reset, self.restored = (list(triton_meta.get(name, ())) for name in ("reset_to_zero", "restore_value"))
        super().__init__(fn, {**self.constants, **(self.configs[0] if self.configs else {})}, meta)
        if len(self.configs) > 1:
            self.run = self.measured

    def given(self) -> list[str]:
        """Returns the parameters that calls pass: all but constants that the user declared, and defaults."""
        return [p.name for p in self.fn.params if not p.is_constexpr and p.name not in self.defaults]

    def measured(self, *arguments: Any) -> None:
        """Launches with the quickest configuration, which is found by measurement; later launches use it."""
        configs = [as_config(x) for x in self.configs]
        tuner = Autotuner(self.fn, self.fn.arg_names, configs, [], self.reset, self.restored)
        values = {**dict(zip(self.names, arguments, strict=True)), **self.constants}
        values = {name: x for name, x in values.items() if name in self.fn.arg_names and name not in self.configs[0]}
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


def defaults(fn: JITFunction, triton_meta: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the parameters that keep their defaults: Inductor names all others in a signature or as constants."""
    named = {*triton_meta["constants"], *(triton_meta.get("signature") or fn.arg_names)}
    left = (p for p in fn.params if p.has_default and (p.is_constexpr or p.name not in named))
    return {p.name: p.default for p in left if p.name not in triton_meta["constants"]}


def as_config(config: Blocks) -> Config:
    """Returns a configuration as an object; hints for GPUs are no constants."""
    hints = {name: x for name, x in config.items() if name in _HINTS}
    return Config({name: x for name, x in config.items() if name not in _HINTS}, **hints)


@contextmanager
def clones(triton_kernel_wrap: Any) -> Iterator[None]:
    """Has torch copy elements alone of what a kernel writes, inside of a `with` block; see `copies`."""
    before = triton_kernel_wrap.clone_preserve_strides
    triton_kernel_wrap.clone_preserve_strides = copied
    try:
        yield
    finally:
        triton_kernel_wrap.clone_preserve_strides = before
