"""The `quantization_config` of compressed-tensors describes in config.json how each layer is quantised."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from pypto.errors.quant import NotRead, WrongCalibration
from pypto.quant.schemes import GROUP, TENSOR, Scheme

FORMAT: Final = "compressed-tensors"
OWN: Final = "pypto"  # the method for arrays that other readers do not know: factors of inputs, or our own names
METHODS: Final = (FORMAT, OWN)
LINEAR: Final = "Linear"
# Keys that are read or irrelevant; other keys with the values at which they have no effect.
KEYS: Final[Mapping[str, tuple[Any, ...]]] = {
    "kv_cache_scheme": (None,), "sparsity_config": (None, {}), "transform_config": (None, {}), "quant_method": METHODS,
}  # fmt: skip
FREE_KEYS: Final = (
    "config_groups", "format", "ignore", "global_compression_ratio", "quantization_status", "version",
)  # fmt: skip
GROUP_KEYS: Final[Mapping[str, tuple[Any, ...]]] = {"output_activations": (None,)}
FREE_GROUP_KEYS: Final = ("targets", "weights", "input_activations", "format")
SCHEME_KEYS: Final[Mapping[str, tuple[Any, ...]]] = {
    "type": ("int",), "block_structure": (None,), "actorder": (None, "group", "dynamic", "weight", "static"),
    "strategy": ("tensor", "channel", "group", "token"), "dynamic": (True, False), "num_bits": (4, 8),
    "symmetric": (True, False),
}  # fmt: skip
FREE_SCHEME_KEYS: Final = ("group_size", "observer", "observer_kwargs", "scale_dtype", "zp_dtype")
BY_INDEX: Final = ("group", "dynamic")  # values of actorder for which a file states the group of each column


@dataclass(frozen=True, slots=True)
class SchemeGroup:
    """Schemes of weights and inputs that several layers share.

    Parameters
    ----------
    weights : Scheme
    inputs : Scheme, optional
    targets : sequence of str
        Names of layers, regular expressions behind ``re:``, or ``"Linear"`` for all others.
    has_order : bool
        Whether columns are reordered (act-order): files then state the group of each.
    """

    weights: Scheme
    inputs: Scheme | None
    targets: Sequence[str]
    has_order: bool

    def json(self) -> dict[str, Any]:
        """The group in the terms of the format."""
        activations = None if self.inputs is None else described(self.inputs) | {"dynamic": self.inputs.per != TENSOR}
        order = {"actorder": "group"} if self.has_order else {}
        weights = described(self.weights) | order
        return {
            "targets": list(self.targets), "weights": weights, "input_activations": activations, "format": self.format,
        }  # fmt: skip

    @property
    def format(self) -> str:
        """The layout of the codes in a file."""
        return "pack-quantized" if self.weights.bits == 4 else "int-quantized"

    def matches(self, name: str) -> int:
        """Says how closely a target matches a name: 3 the name itself, 2 a pattern, 1 all layers, 0 not at all."""
        if name in self.targets:
            return 3
        if any(target.startswith("re:") and re.match(target[3:], name) for target in self.targets):
            return 2
        return int(LINEAR in self.targets)


def described(scheme: Scheme) -> dict[str, Any]:
    """Describes a scheme in the terms of the format."""
    return {
        "num_bits": scheme.bits, "type": "int", "symmetric": scheme.symmetric, "strategy": scheme.per,
        "group_size": scheme.group or None, "dynamic": False,
    }  # fmt: skip


def config_of(groups: Sequence[SchemeGroup], is_own: bool) -> dict[str, Any]:
    """Builds this part of config.json."""
    forms = {group.format for group in groups}
    form = forms.pop() if len(forms) == 1 else "mixed-precision"
    numbered = {f"group_{number}": group.json() for number, group in enumerate(groups)}
    method = OWN if is_own else FORMAT
    return {"quant_method": method, "format": form, "config_groups": numbered, "ignore": []}


def groups_of(source: str, config: Any) -> list[SchemeGroup]:
    """Reads the groups of this part of config.json.

    Raises
    ------
    WrongCalibration
        If the format or a scheme is not supported.
    NotRead
        If there are unknown keys, which may change the meaning of the numbers.
    """
    given = mapping(source, config, "quantization_config")
    if given.get("quant_method") not in METHODS:
        refuse(source, f"its quant_method is {given.get('quant_method')}, and {' and '.join(METHODS)} are offered")
    check(source, given, KEYS, FREE_KEYS)
    groups = mapping(source, given.get("config_groups"), "config_groups")
    if not groups:
        refuse(source, "it has no config_groups")
    return [group_of(source, mapping(source, group, name)) for name, group in groups.items()]


def group_of(source: str, given: Mapping[str, Any]) -> SchemeGroup:
    """Reads one group."""
    check(source, given, GROUP_KEYS, FREE_GROUP_KEYS)
    targets = given.get("targets")
    if not isinstance(targets, list) or not all(isinstance(target, str) for target in targets):
        refuse(source, f"its targets are {targets}")
    weights = mapping(source, given.get("weights"), "weights")
    inputs = given.get("input_activations")
    if weights.get("dynamic"):
        refuse(source, "scales of weights are dynamic")
    scheme = None if inputs is None else scheme_of(source, mapping(source, inputs, "input_activations"))
    return SchemeGroup(scheme_of(source, weights), scheme, targets, weights.get("actorder") in BY_INDEX)


def scheme_of(source: str, given: Mapping[str, Any]) -> Scheme:
    """Reads a scheme."""
    check(source, given, SCHEME_KEYS, FREE_SCHEME_KEYS)
    for key in ("num_bits", "symmetric", "strategy"):
        if key not in given:
            refuse(source, f"a scheme does not say {key}")
    per = given["strategy"]
    size: Any = given.get("group_size")
    if per == GROUP and (type(size) is not int or size < 1):
        refuse(source, f"groups have the size {size}")
    return Scheme(given["num_bits"], given["symmetric"], per, size if per == GROUP else 0)


def check(source: str, given: Mapping[str, Any], values: Mapping[str, tuple[Any, ...]], free: Sequence[str]) -> None:
    """Refuses unknown keys, and values that are not supported."""
    for key, value in given.items():
        if key in values:
            if not any(value == one and type(value) is type(one) for one in values[key]):
                refuse(source, f"its {key} is {value}, and {', '.join(map(str, values[key]))} is offered")
        elif key not in free:
            raise NotRead(source=source, what=f"the key {key}", way="it may change what the numbers mean")


def mapping(source: str, given: Any, what: str) -> Mapping[str, Any]:
    """Returns a JSON object."""
    if not isinstance(given, dict):
        refuse(source, f"its {what} is {given!r}" if given is not None else f"it has no {what}")
    return given


def refuse(source: str, what: str) -> NoReturn:
    raise WrongCalibration(what=f"{source} cannot be read: {what}", way="give a folder that `pypto.quant.save` wrote")
