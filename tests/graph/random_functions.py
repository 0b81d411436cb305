"""Random functions on arrays as text: statements of numpy over arrays of many dtypes, with what they compute.

Each statement is executed by numpy while the function is drawn, so that the dtypes and shapes of all values are known,
and what numpy refuses is left out. Integers and bools are exact. Floats are exact as long as they are small multiples
of a power of two; what rounds in an order of its own (sums, functions) is compared by how far small errors carry.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, Final

import ml_dtypes
import numpy as np

from tests.graph import random_windows

INTEGERS: Final = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
FLOATS: Final = ("float16", "bfloat16", "float32", "float64")
DTYPES: Final = (*INTEGERS, *FLOATS, "bool", "float32", "float64", "int64")
SIZES: Final = (1, 2, 3, 4, 5, 8, 17, 40, 300)
MOST_ELEMENTS: Final = 12_000
MOST_PAIRS: Final = 4_000_000  # of elements of two operands of a product
MOST_VALUE: Final = 2.0**40  # of values that later statements may use
SIGN_OF_NUMBER: Final = "np.copysign({0}, np.where({1} == {1}, {1}, 1))"  # the sign of a NaN may be either
EPS: Final = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-22, "float64": 2.0**-50}
NAMES: Final[dict[str, Any]] = {"np": np, "bfloat16": ml_dtypes.bfloat16, "__name__": "random_functions"}


class State:
    """What a function reads through attributes."""

    def __init__(self, scale: Any, shift: Any, weights: Any) -> None:
        self.scale = scale
        self.shift = shift
        self.weights = weights


def wide(x: Any) -> Any:
    """Floats as those that their sums are kept in, or wider."""
    narrow = x.dtype in (np.float16, ml_dtypes.bfloat16)
    wider = {"float32": np.float64, "float64": np.longdouble}
    return x.astype(np.float32) if narrow else x.astype(wider.get(str(x.dtype), x.dtype))


NAMES.update(random_windows.NAMES, wide=wide)


@dataclass
class Term:
    """A variable: its value, and whether that is the same in whatever order it is computed."""

    name: str
    value: Any
    exact: bool

    @property
    def dtype(self) -> Any:
        return self.value.dtype

    @property
    def is_integer(self) -> bool:
        return bool(self.value.dtype.kind in "iu")

    @property
    def is_float(self) -> bool:
        return str(self.value.dtype) in FLOATS


@dataclass
class Statement:
    """Lines of the function, what they are in numpy where that differs, the variable they make, and if it is exact."""

    text: str
    reference: str
    name: str
    exact: bool


@dataclass
class Function:
    """A function under construction."""

    seed: int
    rng: random.Random = field(init=False)
    arrays: list[Any] = field(default_factory=list)
    terms: list[Term] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    state: State = field(init=False)
    dims: dict[str, tuple[str | None, ...]] = field(default_factory=dict)
    foreign: str = ""  # once more: all arguments as tensors of torch, or one as an array on a device

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        numbers = np.random.default_rng(self.seed)
        self.state = State(self.rng.choice((2, 0.5, -1.5)), self.rng.choice((1, -3)), numbers.integers(-4, 5, 3))

    # --- drawing ---------------------------------------------------------------------------------------------------

    def pick(self, choices: Any) -> Any:
        return self.rng.choice(list(choices))

    def some(self, fits: Any = lambda t: True) -> Term | None:
        found = [t for t in self.terms if fits(t)]
        return self.pick(found[-6:] + found[:2]) if found else None

    def names(self) -> dict[str, Any]:
        return {**NAMES, "state": self.state, **{t.name: t.value for t in self.terms}}

    def add(self, text: str, exact: bool, reference: str = "", name: str = "") -> bool:
        """Append a statement that numpy executes, if it does and its value is not too large to go on with."""
        name = name or f"t{len(self.statements)}"
        lines = text if text.startswith(f"{name} = ") else f"{name} = {text}"
        told = f"{name} = {reference}" if reference else lines
        names = self.names()
        try:
            with np.errstate(all="ignore"):
                exec(told, names)
        except (ValueError, TypeError, IndexError, OverflowError, ZeroDivisionError):
            return False
        value = np.asarray(names[name])
        if str(value.dtype) not in DTYPES or value.size > MOST_ELEMENTS or value.ndim > 4:
            return False
        if str(value.dtype) in FLOATS:
            finite = value[np.isfinite(value)].astype(np.float64)
            if finite.size and np.abs(finite).max() > (1e3 if value.dtype.itemsize == 2 else MOST_VALUE):
                return False
            exact = exact and not (finite * 2.0**8 % 1).any() and (not finite.size or np.abs(finite).max() < 2.0**12)
            if value.dtype.itemsize == 2 and exact:  # so short that sums of a few are exact
                exact = not (finite * 4 % 1).any() and (not finite.size or np.abs(finite).max() < 32)
        else:
            exact = True
        self.statements.append(Statement(lines, told, name, exact))
        self.terms.append(Term(name, value, exact))
        return True

    def number(self, term: Term) -> str:
        """A constant, often a negative one."""
        if term.is_float and self.rng.random() < 0.6:
            return str(self.pick((-2.0, -0.5, 0.5, 1.5, -1.0, 3.0)))
        return str(self.pick((-1, -2, -3, 2, 3, 1)))

    def operand(self, term: Term) -> tuple[str, bool]:
        """A number, another variable, or something of a slice of the same array; and whether it is exact."""
        kind, name = self.rng.random(), term.name
        if kind < 0.25:
            return self.number(term), True
        if kind < 0.35:
            return self.pick(("state.scale", "state.shift", "len(state.weights)", "state.weights[0]")), True
        if kind < 0.6 and term.value.ndim:
            form = self.pick(("{}[:1]", "({}[:1] + 1)", "{}[::-1]", "({}[..., :1] * 2)", "{}[0]", "({}[-1] - 1)",
                              "abs({}[..., -1:])", "{}.max(axis=0)", "-{}", "{}.T"))  # fmt: skip
            return form.format(name), term.exact
        other = self.some(lambda t: broadcasts(t.value, term.value))
        assert other is not None
        return other.name, other.exact

    # --- statements ------------------------------------------------------------------------------------------------

    def unary(self) -> None:
        t = self.some()
        assert t is not None
        forms = ["-{}", "abs({})", "np.sign({})", "{} * -1", "-(-{})", "({}) ** 2", "np.square({})", "+{}"]
        if t.exact:
            forms += ["np.floor({})", "np.round({})", "{} > 0", "np.rint({})", "np.isfinite({})", "-{} // 2", "-{} % 3"]
        if t.is_integer or t.dtype == bool:
            forms += ["~{}", "-~{}", "{} << 1", "{} >> 1"]
        self.add(self.pick(forms).format(t.name), t.exact)

    def function(self) -> None:
        """Functions that round in their own way."""
        t = self.some()
        assert t is not None
        forms = ("np.exp(-abs({0}))", "np.tanh({0})", "np.sqrt(abs({0}))", "np.log1p(abs({0}))", "1 / (1 + abs({0}))",
                 "np.sin({0})", "np.cbrt({0})", "abs({0}) ** 0.5", "(abs({0}) + 1) ** -1", "(abs({0}) + 1) ** -1.5",
                 "np.arctan({0})", "np.expm1(-abs({0}))", "np.reciprocal(abs({0}) + 1.0)")  # fmt: skip
        self.add(self.pick(forms).format(t.name), False)

    def binary(self) -> None:
        t = self.some()
        assert t is not None
        other, exact = self.operand(t)
        exact = exact and t.exact
        a, b = (t.name, other) if self.rng.random() < 0.6 else (other, t.name)
        forms = ["{} + {}", "{} - {}", "{} * {}", "np.maximum({}, {})", "np.minimum({}, {})"]
        rounding = ["np.logaddexp({}, {})", "{} / (abs({}) + 1)", "np.hypot({}, {})", "np.arctan2({}, {})"]
        if exact:
            forms += ["{} // {}", "{} % {}", "np.fmod({}, {})", "{} < {}", "{} == {}", "{} >= {}", "{} != -{}"]
            forms += [
                "np.floor_divide({}, {})",
                "np.heaviside({}, {})",
                "np.copysign({0}, np.where({1} == {1}, {1}, 1))",
                "{} > {}",
            ]
            forms += ["{} & {}", "{} | {}", "{} ^ {}"] if not t.is_float else []
        form = self.pick(forms) if self.rng.random() < 0.8 else self.pick(rounding)
        self.add(form.format(a, b), exact and form not in rounding)

    def power(self) -> None:
        """Powers of negative numbers, and negative powers."""
        t = self.some(lambda t: t.exact)
        if t is None:
            return
        small = f"({t.name} % 4)" if not t.is_float else f"np.minimum(abs({t.name}), 3)"
        forms = ["(-1) ** {s}", "(-2) ** {s}", "-2 ** {s}", "{x} ** 3", "-{x} ** 2", "np.power({x}, 2)", "2 ** {s}"]
        forms += ["{x} ** 2.0", "({x} + 1.0) ** -1", "(-1.5) ** np.floor({s})"] if t.is_float else ["{x} ** {s}"]
        exact = not t.is_float
        self.add(self.pick(forms).format(s=small, x=t.name), exact)

    def shift(self) -> None:
        t = self.some(lambda t: t.is_integer)
        if t is not None:
            self.add(
                self.pick(("{0} << ({0} & 3)", "{0} >> ({0} & 3)", "-1 << ({0} & 7)", "{0} >> 7")).format(t.name), True
            )

    def choose(self) -> None:
        test = self.some(lambda t: t.dtype == bool)
        t = self.some(lambda t: test is None or broadcasts(t.value, test.value))
        if test is None or t is None:
            return self.binary()
        other, exact = self.operand(t)
        self.add(f"np.where({test.name}, {t.name}, {other})", exact and t.exact)
        return None

    def reduce(self) -> None:
        t = self.some(lambda t: t.value.ndim > 0 and t.value.size > 0)
        if t is None:
            return
        axis, keep = self.pick((None, *range(t.value.ndim), -1)), self.pick((True, False))
        how = f"axis={axis}, keepdims={keep}"
        names = ["sum", "max", "min", "mean", "var", "std", "any", "all", "prod"]
        name = self.pick([*names, "argmax", "argmin"] if t.exact else names[:6])
        rounds = name in ("mean", "var", "std") or (t.is_float and name in ("sum", "prod"))
        text = f"np.{name}({t.name}, {how})"
        reference = f"np.{name}(wide({t.name}), {how}).astype({t.name}.dtype)" if rounds and t.is_float else ""
        self.add(text, t.exact and not rounds and name != "prod", reference)

    def scan(self) -> None:
        t = self.some(lambda t: t.value.ndim > 0)
        if t is None:
            return
        axis = self.pick((None, *range(t.value.ndim)))
        name = self.pick(("cumsum", "cumsum", "cumprod" if not t.is_float else "cumsum"))
        reference = f"np.{name}(wide({t.name}), axis={axis}).astype({t.name}.dtype)" if t.is_float else ""
        self.add(f"np.{name}({t.name}, axis={axis})", t.exact and not t.is_float, reference)

    def contract(self) -> None:
        """Products however they are written, in the type of numpy's result."""
        a = self.some(lambda t: t.value.ndim in (1, 2, 3))
        b = a and self.some(lambda t: t.value.ndim in (1, 2, 3) and (t.dtype == a.dtype or self.rng.random() < 0.1))
        if a is None or b is None or a.value.size * b.value.size > MOST_PAIRS:
            return
        forms = ("{} @ {}", "np.dot({}, {})", "np.inner({}, {})", "np.vecdot({}, {})", "np.tensordot({}, {}, 1)",
                 "np.einsum('ij,jk->ik', {}, {})", "np.einsum('...i,...i->...', {}, {})", "np.matmul({}, {}.T)",
                 "np.einsum('ij,ij->j', {}, {})", "np.einsum('ij,kj->ki', {}, {})", "np.einsum('i,j->ij', {}, {})",
                 "np.einsum('ii,i->i', {}, {})", "np.outer({}, {})", "({} * {}).sum(-1)")  # fmt: skip
        text = self.pick(forms)
        x, y = a.name, self.pick((b.name, b.name, f"{a.name}.T", a.name))
        narrow = a.is_float and (a.dtype == b.dtype or y != b.name)
        reference = f"({text.format(f'wide({x})', f'wide({y})')}).astype({x}.dtype)" if narrow else ""
        self.add(text.format(x, y), a.exact and b.exact and not a.is_float and not b.is_float, reference)

    def move(self) -> None:
        t = self.some(lambda t: t.value.ndim > 0)
        if t is None:
            return
        axis = self.pick(range(t.value.ndim))
        dims = list(range(t.value.ndim))
        self.rng.shuffle(dims)
        forms = (f"{{0}}.transpose({dims})", "{0}.reshape(-1)", f"np.roll({{0}}, {self.pick((1, -2, 5))}, {axis})",
                 f"np.flip({{0}}, {axis})", f"np.concatenate([{{0}}, -{{0}}], {axis})", "{0}[::-1]", "{0}[1:]",
                 "{0}[::2]",
                 "{0}[..., None]", f"np.repeat({{0}}, 2, {axis})", "{0}[1:] - {0}[:-1]", "{0}[..., 1:] * {0}[..., :-1]",
                 "np.stack([{0}, {0} + {0}])", f"np.roll({{0}}, 1, {axis}) - {{0}}", "np.tril({0})", "np.diff({0})",
                 "np.pad({0}, 1)[1:]", "{0}.T.reshape(-1)", "np.roll({0}, 3)")  # fmt: skip
        self.add(self.pick(forms).format(t.name), t.exact)

    def windows(self) -> None:
        t = self.some(lambda t: t.value.ndim == 2 and min(t.value.shape) >= 3)
        if t is not None:
            text, reference, is_exact = random_windows.statement(self.rng, t.name, t.is_integer or t.is_float)
            self.add(text, t.exact and (is_exact or t.is_integer), reference)

    def cast(self) -> None:
        t = self.some(lambda t: t.exact)
        if t is None:
            return
        dtype = self.pick((*INTEGERS, *FLOATS, "bool"))
        name = dtype if dtype == "bfloat16" else f"np.{dtype}" if dtype != "bool" else "bool"
        clipped = t.name
        if t.is_float and dtype not in FLOATS:
            clipped = f"np.nan_to_num(np.clip({t.name}, {0 if dtype.startswith('u') else -100}, 100))"
        self.add(f"{clipped}.astype({name})", True)

    def order(self) -> None:
        t = self.some(lambda t: t.value.ndim > 0 and t.exact)
        if t is None:
            return
        axis = self.pick(range(t.value.ndim))
        forms = (f"np.sort({{0}}, axis={axis})", f"np.argsort({{0}}, axis={axis}, kind='stable')",
                 f"np.take({{0}}, [0, -1, 0], axis={axis})", "np.searchsorted(np.sort({0}.reshape(-1)), {0})",
                 f"np.median({{0}}, axis={axis})")  # fmt: skip
        form = self.pick(forms)
        reference = form.format(f"wide({t.name})")  # sorts of numpy do not know NaN of bfloat16
        if not form.startswith(("np.argsort", "np.searchsorted")) and t.is_float:
            reference = f"({reference}).astype({t.name}.dtype)"
        self.add(form.format(t.name), t.exact, reference)

    def update(self) -> None:
        """Updates in place of a copy."""
        t = self.some(lambda t: t.value.ndim > 0)
        if t is None:
            return
        name = f"t{len(self.statements)}"
        by_mask = "{n}[{n} > 0] = 1" if t.exact else "{n}[0] = -3"
        forms = ("{n}[1:] += 1", "{n}[..., ::2] *= 2", "{n}[::-1][:1] = 2", "{n}[:1] = -{n}[-1:]",
                 "{n} -= {n}[..., :1]", "{n}[..., [0, -1]] = 1", by_mask)  # fmt: skip
        self.add(f"{name} = {t.name}.copy()\n{self.pick(forms).format(n=name)}", t.exact, name=name)

    def loop(self) -> None:
        """A loop of Python that carries an array."""
        t = self.some()
        assert t is not None
        name, other = f"t{len(self.statements)}", self.operand(t)
        step = self.pick(("{n} = {n} - {o}", "{n} = {n} + {o} * k", "{n} = -{n} + k", "{n} = np.maximum({n}, {o}) - k",
                          "{n} = {n} * (-1) ** k", "{n} = {n} + state.shift"))  # fmt: skip
        body = f"for k in range({self.pick((2, 3))}):\n    {step.format(n=name, o=other[0])}"
        self.add(f"{name} = {t.name}\n{body}", t.exact and other[1], name=name)

    # --- the whole -------------------------------------------------------------------------------------------------

    def drawn(self) -> Function:
        """This function, when all is drawn."""
        sizes = [self.pick(SIZES) for _ in range(2)]
        shapes: list[tuple[int, ...]] = [tuple(sizes), tuple(sizes[::-1]), (sizes[1],), (sizes[0], sizes[0]), ()]
        shapes = [shape for shape in shapes if np.prod(shape) <= MOST_ELEMENTS]
        numbers = np.random.default_rng(self.seed)
        favourite = self.pick(DTYPES)
        for n in range(self.rng.randint(1, 3)):
            dtype = favourite if self.rng.random() < 0.6 else self.pick(DTYPES)
            self.arrays.append(values_of(numbers, dtype, self.pick(shapes)))
            self.terms.append(Term(f"a{n}", self.arrays[-1], True))
        wanted = self.rng.randint(3, 9)
        for _ in range(40):
            if len(self.statements) >= wanted:
                break
            getattr(self, self.pick(KINDS))()
        made = [s.name for s in self.statements]
        if self.rng.random() < 0.25:
            self.name_dimensions()
        self.foreign = random.Random(f"foreign {self.seed}").choices(("", "torch", "device"), (82, 15, 3))[0]
        self.results = sorted({*self.rng.sample(made, min(2, len(made))), *made[-1:]})
        return self

    def name_dimensions(self) -> None:
        """Give one dimension of an argument a name: that of all others of the same size, too."""
        sizes = {n for x in self.arrays for n in x.shape if n > 1}
        if sizes:
            named = self.pick(sorted(sizes))
            for n, x in enumerate(self.arrays):
                if named in x.shape:
                    self.dims[f"a{n}"] = tuple("n" if size == named else None for size in x.shape)

    def text(self) -> str:
        """The function as a module."""
        lines = [line for s in self.statements for line in s.text.split("\n")]
        head = f"def function({', '.join(f'a{n}' for n in range(len(self.arrays)))}):"
        return "\n".join([head, *(f"    {line}" for line in lines), f"    return [{', '.join(self.results)}]", ""])


KINDS: Final = (
    "unary", "function", "binary", "binary", "binary", "binary", "power", "shift", "choose", "reduce", "reduce", "scan",
    "contract", "contract", "move", "move", "cast", "order", "update", "loop", "windows",
)  # fmt: skip


def values_of(rng: Any, dtype: str, shape: tuple[int, ...]) -> Any:
    """Small numbers, and a few at the edges of their type."""
    if dtype == "bool":
        return np.asarray(rng.random(shape) < 0.5)
    if dtype in FLOATS:
        found = rng.integers(-16, 17, shape) / 4
        odd = rng.random(shape) < 0.03
        found = np.where(odd, rng.choice([np.inf, -np.inf, np.nan, -0.0], shape), found)
        return np.asarray(found).astype(NAMES["bfloat16"] if dtype == "bfloat16" else dtype)
    info = np.iinfo(dtype)
    found = rng.integers(-9 if info.min else 0, 10, shape)
    edges = rng.choice(np.array([info.min, info.max, info.max - 1], dtype), shape)
    return np.asarray(np.where(rng.random(shape) < 0.08, edges, found.astype(dtype)))


def broadcasts(a: Any, b: Any) -> bool:
    try:
        np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        return False
    return True
