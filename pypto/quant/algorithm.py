"""Algorithms by name: functions of a layer, the statistics of its inputs and a scheme."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final

from pypto.errors.quant import NoSuchAlgorithm, WrongOption
from pypto.options import suggestion
from pypto.quant.observers import Statistics
from pypto.quant.schemes import Scheme
from pypto.quant.weight import Layer, QuantizedWeight

Function = Callable[..., QuantizedWeight]
MODULES: Final = ("minmax", "percentile", "smoothquant", "awq", "gptq")


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A quantisation algorithm with its options.

    Parameters
    ----------
    name : str
    function : callable
        Gets a `Layer`, `Statistics`, a `Scheme` and options by name; gives a `QuantizedWeight`.
    gram : bool
        Whether it reads the Gram matrix of the inputs.
    data : bool
        Whether it reads any statistics.
    options : mapping of str to value

    Examples
    --------
    >>> from pypto import quant
    >>> quant.gptq(damp=0.05).options["damp"]
    0.05
    """

    name: str
    function: Function
    gram: bool = True
    data: bool = True
    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    def __call__(self, **options: Any) -> Algorithm:
        """The same algorithm with other options.

        Raises
        ------
        WrongOption
            For an option that its function does not have.
        """
        known = self.known_options
        for name in options:
            if name not in known:
                raise WrongOption(
                    name=self.name, option=name, suggestion=suggestion(name, known), known=", ".join(known) or "none"
                )
        return replace(self, options=MappingProxyType({**self.options, **options}))

    @property
    def known_options(self) -> tuple[str, ...]:
        """Names of its options."""
        return tuple(inspect.signature(self.function).parameters)[3:]

    def run(self, layer: Layer, statistics: Statistics, scheme: Scheme) -> QuantizedWeight:
        """Quantise one layer, and check the result."""
        return self.function(layer, statistics, scheme, **self.options).check(layer)


class Registry(Mapping[str, Algorithm]):
    """A mapping from names to algorithms: those of the package, loaded when one is asked for, and the user's."""

    def __init__(self) -> None:
        self._own: dict[str, Algorithm] = {}

    def __getitem__(self, name: str) -> Algorithm:
        if name in self._own:
            return self._own[name]
        if name in MODULES:
            module = import_module(f"pypto.quant.solvers.{name}")
            found: Algorithm = module.ALGORITHM
            return found
        raise NoSuchAlgorithm(name=repr(name), suggestion=suggestion(name, tuple(self)), known=", ".join(self))

    def __contains__(self, name: object) -> bool:
        return name in (*MODULES, *self._own)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*MODULES, *self._own)))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def register(self, algorithm: Algorithm) -> Algorithm:
        """Add an algorithm; it takes the place of one with the same name."""
        self._own[algorithm.name] = algorithm
        return algorithm


algorithms = Registry()


def algorithm(name: str, gram: bool = True, data: bool = True) -> Callable[[Function], Algorithm]:
    """Register a function as an algorithm.

    Parameters
    ----------
    name : str
        Under which `Config` and the command line find it.
    gram : bool
        Whether it reads `Statistics.gram`; without, calibration needs less memory and time.
    data : bool
        Whether it reads any statistics; without, a layer can be quantised without inputs.

    Returns
    -------
    callable
        A decorator that gives an `Algorithm`.

    Examples
    --------
    >>> from pypto import quant
    >>> @quant.algorithm("half-range", data=False)
    ... def half_range(layer, statistics, scheme):
    ...     low, high = quant.ranges(layer.weight, scheme)
    ...     scales, zeros = quant.grid(low / 2, high / 2, scheme)
    ...     return quant.QuantizedWeight(quant.codes(layer.weight, scales, zeros, scheme), scales, scheme, zeros)
    >>> quant.Config(algorithm="half-range").algorithm.name
    'half-range'
    """
    return lambda function: algorithms.register(Algorithm(name, function, gram and data, data))


def find(given: Algorithm | str) -> Algorithm:
    """An algorithm, by its name or as it is."""
    return given if isinstance(given, Algorithm) else algorithms[given]
