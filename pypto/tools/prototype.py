"""Prototypes of operators as msopgen reads them: JSON with names, types and formats, checked before anything is made.

The names become names of files and of C++, so each must be one. Nothing else of the text gets into a project.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from pypto.errors.project import WrongPrototype

_MOST_BYTES: Final = 1 << 20
_MOST_TYPES: Final = 64
_OPERATOR: Final = re.compile(r"[A-Z][A-Za-z0-9]{0,63}", re.ASCII)
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}", re.ASCII)
_DTYPES: Final = MappingProxyType(
    {"float": "f32", "float32": "f32", "fp32": "f32", "float16": "f16", "fp16": "f16", "half": "f16",
     "bfloat16": "bf16", "bf16": "bf16", "int8": "i8", "int16": "i16", "int32": "i32", "int": "i32", "int64": "i64",
     "uint8": "u8", "bool": "i1"})  # fmt: skip
_ATTRIBUTES: Final = MappingProxyType({"int": int, "float": float, "bool": bool})
_KEYS: Final = frozenset({"op", "language", "input_desc", "output_desc", "attr", "kernel_name", "need_check_supported"})
_ARRAY_KEYS: Final = frozenset({"name", "param_type", "format", "type", "dynamic_shape"})
_COMMENT: Final = re.compile(r"^\s*//.*$", re.MULTILINE)  # a line alone, as guides name the file in one
_ATTRIBUTE_KEYS: Final = frozenset({"name", "param_type", "type", "default_value"})


@dataclass(frozen=True)
class Prototype:
    """An operator as its JSON describes it.

    Attributes
    ----------
    type : str
        The operator's type, as in ``AddCustom``.
    inputs, outputs : dict
        By the array's name its dtypes, one for each combination.
    attributes : dict
        By the number's name its default, or None.
    unused : tuple of str
        Sentences about what it says that a project has otherwise.
    dynamic : tuple of str
        Arrays that are to have any shape.
    """

    type: str
    inputs: Mapping[str, tuple[str, ...]]
    outputs: Mapping[str, tuple[str, ...]]
    attributes: Mapping[str, int | float | bool | None]
    unused: tuple[str, ...] = ()
    dynamic: tuple[str, ...] = ()

    @property
    def combinations(self) -> list[dict[str, str]]:
        """The dtypes of all arrays by name, for each combination once."""
        arrays = {**self.inputs, **self.outputs}
        count = len(next(iter(arrays.values())))
        every = [{name: dtypes[n] for name, dtypes in arrays.items()} for n in range(count)]
        return [one for n, one in enumerate(every) if one not in every[:n]]


def read_prototype(path: Path) -> Prototype:
    """Read a prototype from a file.

    Raises
    ------
    WrongPrototype
        When there is no such file, or when it is no prototype.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        text = data.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WrongPrototype(path=path, problem=f"it cannot be read ({error})") from None
    return prototype_of(text, str(path))


def prototype_of(text: str, path: str) -> Prototype:
    """Check a prototype's text.

    Parameters
    ----------
    text : str
        JSON.
    path : str
        Where it is from, for errors.

    Raises
    ------
    WrongPrototype
        When it is no prototype, with what is wrong.
    """
    try:
        return _checked(text)
    except _Problem as problem:
        raise WrongPrototype(path=path, problem=str(problem)) from None


class _Problem(Exception):
    """What is wrong; it never leaves this file."""


def _checked(text: str) -> Prototype:
    if len(text) > _MOST_BYTES:
        raise _Problem("it is larger than a megabyte")
    try:
        data = json.loads(_COMMENT.sub("", text), object_pairs_hook=_without_twins)
    except (ValueError, RecursionError) as error:
        raise _Problem(f"it is no JSON ({error})") from None
    each = [data] if isinstance(data, dict) else data
    if not isinstance(each, list) or len(each) != 1 or not isinstance(each[0], dict):
        raise _Problem("it needs to be one operator, or a list with one")
    operator = each[0]
    _keys(operator, _KEYS, "the operator")
    kind = _matching(operator.get("op"), _OPERATOR, "`op`", "begins with a capital and has letters and digits alone")
    if operator.get("language", "cpp") != "cpp":
        raise _Problem("`language` is not `cpp`")
    _matching(
        operator.get("kernel_name", "kernel"), _NAME, "`kernel_name`", "has letters, digits and underscores alone"
    )
    _is_truth(operator, "need_check_supported", "the operator")
    inputs = dict(map(_array, _objects(operator, "input_desc")))
    outputs = dict(map(_array, _objects(operator, "output_desc")))
    attributes = dict(map(_attribute, _objects(operator, "attr")))
    _check_names(operator, outputs)
    if len({len(dtypes) for dtypes in (*inputs.values(), *outputs.values())}) != 1:
        raise _Problem("all arrays need as many types: one for each combination")
    return Prototype(kind, inputs, outputs, attributes, tuple(_unused(operator)), _dynamic(operator))


def _is_truth(section: Mapping[str, Any], key: str, what: str) -> None:
    if not isinstance(section.get(key, False), bool):
        raise _Problem(f"`{key}` of {what} is {section[key]!r}, which is neither true nor false")


def _unused(operator: Mapping[str, Any]) -> Iterator[str]:
    """What a prototype asks for and a project has otherwise, in sentences."""
    if "kernel_name" in operator:
        yield f"`kernel_name` ({operator['kernel_name']}) is not used: files are named after the operator"
    if operator.get("need_check_supported"):
        yield "`need_check_supported` is not used: the tiling function refuses what no version takes"


def _dynamic(operator: Mapping[str, Any]) -> tuple[str, ...]:
    arrays = [one for key in ("input_desc", "output_desc") for one in operator.get(key, [])]
    return tuple(one["name"] for one in arrays if one.get("dynamic_shape"))


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object, if no key of it stands twice."""
    if len(dict(pairs)) != len(pairs):
        raise _Problem("an object has a key twice")
    return dict(pairs)


def _check_names(operator: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    if not outputs:
        raise _Problem("it has no outputs")
    groups = [[x["name"] for x in _objects(operator, key)] for key in ("input_desc", "output_desc", "attr")]
    inputs, results, numbers = groups
    if any(len(set(group)) != len(group) for group in groups) or {*inputs, *results} & {*numbers}:
        raise _Problem("a name stands for two things")


def _keys(section: Mapping[str, Any], known: frozenset[str], what: str) -> None:
    if unknown := sorted(section.keys() - known):
        raise _Problem(f"{what} has the key {unknown[0]!r}, which is none of {', '.join(sorted(known))}")


def _objects(operator: Mapping[str, Any], key: str) -> Iterator[dict[str, Any]]:
    """The objects of a list, each of which has a name."""
    each = operator.get(key, [])
    if not isinstance(each, list) or not all(isinstance(one, dict) for one in each):
        raise _Problem(f"`{key}` is no list of objects")
    for one in each:
        _matching(one.get("name"), _NAME, f"a name in `{key}`", "has letters, digits and underscores alone")
        yield one


def _matching(value: Any, pattern: re.Pattern[str], what: str, rule: str) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise _Problem(f"{what} is {value!r}; it {rule}")
    return value


def _array(one: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """An array's name and dtypes."""
    name: str = one["name"]
    _keys(one, _ARRAY_KEYS, f"`{name}`")
    _is_truth(one, "dynamic_shape", f"`{name}`")
    if one.get("param_type", "required") != "required":
        raise _Problem(f"`{name}` is {one['param_type']!r}; a kernel takes arrays that are `required`")
    types = _words(one.get("type"), f"the type of `{name}`")
    formats = _words(one.get("format", ["ND"] * len(types)), f"the format of `{name}`")
    if unknown := [word for word in types if word not in _DTYPES]:
        raise _Problem(f"`{name}` is of the type {unknown[0]!r}, which is none of {', '.join(_DTYPES)}")
    if other := [word for word in formats if word != "ND"]:
        raise _Problem(f"`{name}` has the format {other[0]!r}; kernels read and write ND")
    if len(formats) != len(types):
        raise _Problem(f"`{name}` has {len(types)} types and {len(formats)} formats")
    return name, tuple(_DTYPES[word] for word in types)


def _words(value: Any, what: str) -> Sequence[str]:
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        raise _Problem(f"{what} is no list of words")
    if len(words) > _MOST_TYPES:
        raise _Problem(f"{what} has more than {_MOST_TYPES} words")
    return words


def _attribute(one: Mapping[str, Any]) -> tuple[str, int | float | bool | None]:
    """An attribute's name and default."""
    name, kind = one["name"], one.get("type")
    _keys(one, _ATTRIBUTE_KEYS, f"`{name}`")
    if one.get("param_type", "required") not in ("required", "optional"):
        raise _Problem(f"`{name}` is {one['param_type']!r}, which is neither `required` nor `optional`")
    if not isinstance(kind, str) or kind not in _ATTRIBUTES:
        raise _Problem(f"`{name}` is of the type {kind!r}; numbers are of {', '.join(_ATTRIBUTES)}")
    default = one.get("default_value")
    if default is None:
        return name, None
    is_number = isinstance(default, int | float) and isinstance(default, bool) == (kind == "bool")
    if not is_number or (kind == "int" and not isinstance(default, int)):
        raise _Problem(f"the default of `{name}` is {default!r}, which is no {kind}")
    return name, _ATTRIBUTES[kind](default)
