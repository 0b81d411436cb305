"""An `Algorithm` is a function of a layer, the statistics of its inputs and a scheme; the registry finds it by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from pypto.errors.quant import NoSuchAlgorithm, WrongOption, WrongSequence
from pypto.options import suggestion
from pypto.quant.calibrate.observers import Statistics
from pypto.quant.layer import Layer
from pypto.quant.schemes import Scheme
from pypto.quant.tensor import QuantizedTensor

Function = Callable[..., QuantizedTensor]
# Algorithms of the package, each with its module, which is loaded when the algorithm is used.
MODULES: Final = {"minmax": "rtn", "percentile": "rtn", "smoothquant": "smoothquant", "awq": "awq", "gptq": "gptq"}


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A quantisation algorithm with its options.

    Parameters
    ----------
    name : str
    function : callable
        Returns a `QuantizedTensor` for a `Layer`, `Statistics`, a `Scheme` and options by name.
    gram : bool
        Whether it reads the Gram matrix of the inputs.
    data : bool
        Whether it reads any statistics.
    options : mapping of str to value
    factors : bool
        Whether it scales the inputs, so that another algorithm can round the weights after it.
    steps : tuple of Algorithm
        The algorithms of a sequence, which run one after the other.

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
    factors: bool = False
    steps: tuple[Algorithm, ...] = ()

    def __call__(self, **options: Any) -> Algorithm:
        """Return this algorithm with other options.

        Raises
        ------
        WrongOption
            If its function does not have such an option.
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
        """The names of its options; a sequence has none, because its steps have them."""
        return () if self.steps else tuple(inspect.signature(self.function).parameters)[3:]

    @property
    def key(self) -> dict[str, dict[str, str]]:
        """Its name and options as texts; a sequence has those of all steps."""
        steps = self.steps or (self,)
        return {step.name: {name: str(value) for name, value in sorted(step.options.items())} for step in steps}

    def run(self, layer: Layer, statistics: Statistics, scheme: Scheme) -> QuantizedTensor:
        """Quantises one layer, and checks the result."""
        return self.function(layer, statistics, scheme, **self.options).check(layer.name, layer.weight.shape)


@dataclass(frozen=True, slots=True)
class RoundAfter:
    """Runs one algorithm that scales the inputs, and another that chooses codes and scales.

    The second algorithm gets the weight divided, and the statistics multiplied, by the factors.
    """

    first: Algorithm
    second: Algorithm

    def __call__(self, layer: Layer, statistics: Statistics, scheme: Scheme) -> QuantizedTensor:
        """Quantises one layer."""
        transform = self.first.run(layer, statistics, scheme).transform
        if transform is None:
            return self.second.run(layer, statistics, scheme)
        weight = layer.weight.astype(np.float64) / transform
        inputs = statistics.scaled(transform)
        result = self.second.run(Layer(layer.name, weight, layer.bias), inputs, scheme)
        if result.transform is not None:
            transform = transform * result.transform
        return replace(result, transform=transform)


def sequence(steps: Sequence[Algorithm | str]) -> Algorithm:
    """Combines algorithms into one: all but the last scale the inputs, and the last one rounds.

    Raises
    ------
    WrongSequence
        If there is no algorithm, or one before the last does not scale the inputs.
    """
    algorithms = tuple(find(step) for step in steps)
    if not algorithms:
        raise WrongSequence(what="a sequence of no algorithms is not offered")
    result = algorithms[0]
    for step in algorithms[1:]:
        if not result.factors:
            raise WrongSequence(what=f"{step.name} cannot follow {result.name}, which gives no factors of the inputs")
        both = RoundAfter(result, step)
        name = f"{result.name}+{step.name}"
        result = Algorithm(name, both, result.gram or step.gram, result.data or step.data, factors=step.factors)
    return replace(result, steps=algorithms) if len(algorithms) > 1 else result


class Registry(Mapping[str, Algorithm]):
    """A mapping from names to algorithms: those of the package, loaded on first use, and those of the user."""

    def __init__(self) -> None:
        self._registered: dict[str, Algorithm] = {}

    def __repr__(self) -> str:
        return f"<{len(self)} algorithms: {', '.join(self)}>"

    def __getitem__(self, name: str) -> Algorithm:
        if name in self._registered:
            return self._registered[name]
        if name in MODULES:
            algorithm: Algorithm = getattr(import_module(f"pypto.quant.solvers.{MODULES[name]}"), name.upper())
            return algorithm
        raise NoSuchAlgorithm(name=repr(name), suggestion=suggestion(name, tuple(self)), known=", ".join(self))

    def __contains__(self, name: object) -> bool:
        return name in (*MODULES, *self._registered)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*MODULES, *self._registered)))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def register(self, algorithm: Algorithm) -> Algorithm:
        """Add an algorithm; it takes the place of one with the same name."""
        self._registered[algorithm.name] = algorithm
        return algorithm


algorithms = Registry()


def algorithm(
    name: str, gram: bool = True, data: bool = True, factors: bool = False
) -> Callable[[Function], Algorithm]:
    """Registers a function as an algorithm.

    Parameters
    ----------
    name : str
        The name under which `Config` and the command line find the algorithm.
    gram : bool
        Whether it reads `Statistics.gram`; otherwise calibration needs less memory and time.
    data : bool
        Whether it reads any statistics; otherwise a layer can be quantised without inputs.
    factors : bool
        Whether it scales the inputs (`QuantizedTensor.transform`), so that another algorithm may follow.

    Returns
    -------
    callable
        A decorator that returns an `Algorithm`.

    Examples
    --------
    >>> from pypto import quant
    >>> @quant.algorithm("half-range", data=False)
    ... def half_range(layer, statistics, scheme):
    ...     low, high = quant.ranges(layer.weight, scheme)
    ...     scales, zeros = quant.grid(low / 2, high / 2, scheme)
    ...     return quant.QuantizedTensor(quant.codes(layer.weight, scales, zeros, scheme), scales, scheme, zeros)
    >>> quant.Config(algorithm="half-range").algorithm.name
    'half-range'
    """
    return lambda function: algorithms.register(Algorithm(name, function, gram and data, data, factors=factors))


def find(given: Algorithm | str | Sequence[Algorithm | str]) -> Algorithm:
    """Finds an algorithm from itself, its name or a sequence; ``"smoothquant+gptq"`` is a sequence too."""
    if isinstance(given, Algorithm):
        return given
    if isinstance(given, str):
        return algorithms[given] if "+" not in given or given in algorithms else sequence(given.split("+"))
    return sequence(given)
