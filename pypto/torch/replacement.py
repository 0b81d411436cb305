"""Replaces operators of an eager model by rows of `pypto.library`, within a `with` block.

The replacement is a mode of torch that sees calls of functions of torch on the thread that enters the block; it leaves
with the block, also by an exception. A call that a row does not cover stays torch's, and is counted. Torch shows such a
mode no calls within its own functions, as `multi_head_attention_forward`.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType, ModuleType
from typing import Any, Final

from pypto import library
from pypto.errors.library import NoSuchOperator
from pypto.options import suggestion
from pypto.runtime.tensors import elsewhere

torch: ModuleType = importlib.import_module("torch")
F: Any = torch.nn.functional
DTYPES: Final = (torch.float32, torch.bfloat16, torch.float16)
Function = Callable[..., Any]


def is_covered(*tensors: Any) -> bool:
    """Says whether tensors are plain ones with a dtype and on a device that rows take."""
    plain = (torch.Tensor, torch.nn.Parameter)
    return all(type(x) in plain and x.dtype in DTYPES and elsewhere(x) is None for x in tensors)


def rms_norm(x: Any, shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    """Computes `torch.nn.functional.rms_norm` of rows."""
    if weight is None or len(shape) != 1 or tuple(shape) != tuple(x.shape[-1:]) or not is_covered(x, weight):
        return NotImplemented
    return library.rms_norm(x, weight, torch.finfo(x.dtype).eps if eps is None else eps)


def layer_norm(x: Any, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """Computes `torch.nn.functional.layer_norm` of rows."""
    if weight is None or bias is None or tuple(shape) != tuple(x.shape[-1:]) or not is_covered(x, weight, bias):
        return NotImplemented
    return library.layer_norm(x, weight, bias, eps)


def softmax(x: Any, dim: int | None = None, *more: Any, dtype: Any = None, **other: Any) -> Any:
    """Computes `torch.softmax` of the last dimension; what stands behind it may name a dtype."""
    last = dim is not None and x.dim() > 0 and dim in (-1, x.dim() - 1)
    dtypes = {one for one in (*more, dtype) if isinstance(one, torch.dtype)}
    if not last or not is_covered(x) or dtypes - {x.dtype} or other.get("out") is not None:
        return NotImplemented
    return library.softmax(x)


def gelu(x: Any, approximate: str = "none") -> Any:
    """Computes `torch.nn.functional.gelu`."""
    if not is_covered(x) or not x.dim():
        return NotImplemented
    return library.gelu_tanh(x) if approximate == "tanh" else library.gelu(x)


def silu(x: Any, inplace: bool = False) -> Any:
    """Computes `torch.nn.functional.silu`."""
    return NotImplemented if inplace or not is_covered(x) or not x.dim() else library.silu(x)


def attention(
    q: Any, k: Any, v: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
    scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    """Computes `torch.nn.functional.scaled_dot_product_attention`; its causal mask begins at the first key."""
    fits = q.dim() == k.dim() == v.dim() == 4 and is_covered(q, k, v) and q.dtype == k.dtype == v.dtype
    same = fits and (q.shape[1] == k.shape[1] if not enable_gqa else k.shape[1] == v.shape[1])
    if not same or dropout_p or scale == 0 or (is_causal and q.shape[2] != k.shape[2]):
        return NotImplemented
    options: dict[str, Any] = {"scale": scale or 0.0, "causal": int(is_causal)}
    if attn_mask is not None:
        mask = attn_mask[(None,) * (4 - attn_mask.dim())]
        if mask.shape[3] != k.shape[2] or mask.dtype not in (torch.bool, *DTYPES):
            return NotImplemented
        options["mask" if mask.dtype == torch.bool else "bias"] = mask
    return library.attention(q, k, v, **options)


# The functions of torch that a name stands for, and what computes them.
REPLACEMENTS: Final[Mapping[str, tuple[tuple[Any, ...], Function]]] = MappingProxyType(
    {
        "rms_norm": ((F.rms_norm, torch.rms_norm), rms_norm),
        "layer_norm": ((F.layer_norm,), layer_norm),
        "softmax": ((F.softmax, torch.softmax, torch.Tensor.softmax), softmax),
        "gelu": ((F.gelu,), gelu),
        "silu": ((F.silu,), silu),
        "attention": ((F.scaled_dot_product_attention,), attention),
    }
)


class ReplacementMode(torch.overrides.TorchFunctionMode):  # type: ignore[name-defined, misc]
    """The `with` block of `use`.

    Attributes
    ----------
    replaced, left : Counter
        The calls that rows computed, and those of the same functions that torch computed, by name.
    """

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__()
        self.functions = {function: name for name in names for function in REPLACEMENTS[name][0]}
        self.replaced: Counter[str] = Counter()
        self.left: Counter[str] = Counter()

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Calls the replacement of a function, or the function."""
        given = kwargs or {}
        name = self.functions.get(function)
        if name is None:
            return function(*args, **given)
        computed = REPLACEMENTS[name][1](*args, **renamed(given))
        self.replaced[name] += computed is not NotImplemented
        self.left[name] += computed is NotImplemented
        return function(*args, **given) if computed is NotImplemented else computed


def renamed(given: Mapping[str, Any]) -> dict[str, Any]:
    """Gives keywords of torch's functions the names of the parameters here."""
    names = {"input": "x", "normalized_shape": "shape", "query": "q", "key": "k", "value": "v"}
    return {names.get(name, name): value for name, value in given.items()}


def use(include: Iterable[str] = ()) -> ReplacementMode:
    """Replaces operators of an eager model by rows of the library, within a `with` block and on its thread.

    Parameters
    ----------
    include : iterable of str
        Names in `REPLACEMENTS`; by default, all.

    Returns
    -------
    ReplacementMode
        A context manager, which counts the calls that it replaced and those that it left to torch.

    Raises
    ------
    NoSuchOperator
        For a name that stands for no function of torch.

    Examples
    --------
    >>> import torch, pypto.torch
    >>> with pypto.torch.use(include=["softmax"]) as replacing:
    ...     y = torch.softmax(torch.zeros(2, 4), -1)
    >>> y[0].tolist(), dict(replacing.replaced)
    ([0.25, 0.25, 0.25, 0.25], {'softmax': 1})
    """
    names = [include] if isinstance(include, str) else list(include) or list(REPLACEMENTS)
    for name in names:
        if name not in REPLACEMENTS:
            raise NoSuchOperator(name=repr(name), suggestion=suggestion(name, REPLACEMENTS))
    return ReplacementMode(names)
