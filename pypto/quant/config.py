"""`Config` says which parts of a model are quantised and how: schemes, an algorithm, and layers to skip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from pypto.errors.quant import WrongScheme
from pypto.quant.schemes import CHANNEL, GROUP, TENSOR, TOKEN, Scheme, int8, refuse
from pypto.quant.solvers.algorithm import Algorithm, find


@dataclass(frozen=True, slots=True)
class Config:
    """The parts of a model that are quantised, and how.

    Parameters
    ----------
    weights : Scheme
        The scheme of the weights, per tensor, channel or group.
    inputs : Scheme, optional
        The scheme of the inputs: eight bits, symmetric per token or per group of a token's adjacent elements, or per
        tensor with static scales from the calibration. By default, inputs stay in floats.
    algorithm : Algorithm, str, or sequence of them
        An algorithm of the registry, as in ``quant.gptq(damp=0.01)`` or ``"gptq"``. In a sequence, all but the last
        scale the inputs, and the last one rounds: ``("smoothquant", "gptq")``.
    skip : sequence of str
        Names of layers that stay in floats; ``*`` matches any text. Each name must match at least one layer.
    cache : bool
        Whether attention of a torch module uses an int8 cache: keys have one scale for each channel, values one for
        each token and head.
    least_sqnr : float
        The least SQNR in decibels. A layer whose outputs would have less on the calibration data keeps its inputs in
        floats, as happens with a few very large inputs; with 0, no layer does.

    Raises
    ------
    WrongScheme, NoSuchAlgorithm, WrongSequence

    Examples
    --------
    >>> from pypto import quant
    >>> quant.Config(quant.int4(group=128), algorithm=quant.gptq(damp=0.01), skip=["lm_head"]).skips("lm_head")
    True
    """

    weights: Scheme = field(default_factory=int8)
    inputs: Scheme | None = None
    algorithm: Algorithm | str | Sequence[Algorithm | str] = "minmax"
    skip: Sequence[str] = ()
    cache: bool = False
    least_sqnr: float = 0

    def __post_init__(self) -> None:
        for what, scheme in (("weights", self.weights), ("inputs", self.inputs)):
            if not isinstance(scheme, Scheme) and not (what == "inputs" and scheme is None):
                way = "give a scheme, as quant.int8() or quant.int4(group=128)"
                raise WrongScheme(what=f"the scheme of {what} is {scheme!r}", way=way)
        if isinstance(self.skip, str):
            raise WrongScheme(what=f"`skip` is the text {self.skip!r}", way=f"give a list of names: [{self.skip!r}]")
        if self.weights.per == TOKEN:
            refuse("a scheme of weights per token", "weights are per tensor, channel or group")
        given = self.inputs
        if given is not None and (given.bits != 8 or given.per == CHANNEL):
            refuse(f"the scheme `{given.name}` of inputs", "inputs have 8 bits, per token, group or tensor")
        if given is not None and given.format is not None and given.powers != (given.per == GROUP):
            refuse(f"the scheme `{given.name}` of inputs", "groups of floats are those of quant.mxfp8()")
        if given is not None and given.per != TENSOR and not given.symmetric:
            refuse(f"an asymmetric scheme of inputs per {given.per}", "use symmetric=True, or per='tensor'")
        object.__setattr__(self, "algorithm", find(self.algorithm))
        object.__setattr__(self, "skip", tuple(self.skip))

    def skips(self, layer: str) -> bool:
        """Says whether a layer stays in floats."""
        return any(fnmatchcase(layer, pattern) for pattern in self.skip)
