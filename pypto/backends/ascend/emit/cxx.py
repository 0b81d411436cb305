"""Code generation of scalar expressions: Block IR numbers to C++ with its types, constants and few parentheses."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from pypto.backends.ascend.blockir.effects import COMPLEMENTS
from pypto.backends.ascend.blockir.ir import Buffer, Expr, Read, Scalar, View, fold
from pypto.backends.ascend.blockir.reserved import identifier
from pypto.backends.ascend.blockir.softfloat64 import parts
from pypto.errors import CompilerBug
from pypto.ir.types import FLOAT8, DType, bfloat16, float16, float32, int1, int32, int64, named, uint32, uint64

CTYPES: Final = MappingProxyType({
    "i1": "bool", "f16": "half", "bf16": "bfloat16_t", "f32": "float",
    **{f"i{bits}": f"int{bits}_t" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}_t" for bits in (8, 16, 32, 64)},
    **{dtype.mnemonic: "uint8_t" for dtype in FLOAT8},  # which the vector unit holds by their codes
})  # fmt: skip
_BITS: Final = MappingProxyType({"uint8_t": 8, "uint16_t": 16, "uint32_t": 32, "int8_t": 7, "int32_t": 31})
# From loosest to tightest.
_LEVELS: Final = (("?:",), ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", "<=", ">", ">="), ("<<", ">>"),
                  ("+", "-"), ("*", "/", "//", "%"))  # fmt: skip
LEVEL: Final = MappingProxyType({op: level for level, ops in enumerate(_LEVELS) for op in ops})
CHOICE, LOGIC, COMPARED, SUM, PRODUCT, UNARY, ATOM = 0, 2, 7, 9, 10, 11, 12
_BITWISE: Final = frozenset(("|", "^", "&", "<<", ">>"))


@dataclass(frozen=True, slots=True)
class Code:
    """The text of an expression, its precedence and its type."""

    text: str
    dtype: DType
    level: int = ATOM

    def inside(self, level: int) -> str:
        """Return the text for a place that needs this precedence: in parentheses where it binds less."""
        return f"({self.text})" if self.level < level else self.text


def tensor_type(dtype: DType) -> str:
    """Return the element type of a tensor of a dtype. Booleans are bytes."""
    if dtype.mnemonic not in CTYPES:
        raise CompilerBug(f"Block IR holds {dtype}, which the chips have not")
    return "uint8_t" if dtype.is_bool else CTYPES[dtype.mnemonic]


@dataclass
class Names:
    """The symbol table: C++ names of values, and their types. `helpers` are functions that the text calls."""

    text: dict[str, str] = field(default_factory=dict)
    dtypes: dict[str, DType] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    helpers: set[str] = field(default_factory=set)

    def add(self, key: str, dtype: DType, wish: str = "") -> str:
        """Return the C++ name of a key. The first call chooses it."""
        self.dtypes[key] = dtype
        if key not in self.text:
            self.text[key] = self.fresh(wish or key)
        return self.text[key]

    def fresh(self, wish: str) -> str:
        name = base = identifier(wish)
        number = 1
        while name in self.taken:
            number += 1
            name = f"{base}{number}"
        self.taken.add(name)
        return name

    def of(self, key: str) -> Code:
        if key not in self.text:
            raise CompilerBug(f"Block IR reads {key!r}, which nothing has defined")
        return Code(self.text[key], self.dtypes[key])


def constant(value: int | float, dtype: DType) -> Code:
    """Emit a constant of a dtype."""
    if dtype.is_bool:
        return Code("true" if value else "false", int1)
    if dtype.is_float:
        text = _float(float(value))
        level = UNARY if text.startswith("-") else ATOM
        return Code(text, float32, level) if dtype == float32 else convert(Code(text, float32, level), dtype)
    whole = int(value)
    if whole in (-(1 << 63), -(1 << 31)):  # C++ has no negative constants, and their sizes are of the next wider type
        return Code(f"{whole + 1} - 1", int32 if whole == -(1 << 31) else int64, SUM)
    return Code(f"{whole}{suffix(whole, dtype)}", dtype, UNARY if whole < 0 else ATOM)


def suffix(value: int, dtype: DType) -> str:
    """Return the suffix of an unsigned constant. Without it C++ takes the next wider signed type, and nothing wraps."""
    return "u" if value >= 1 << 63 or (dtype.kind == "uint" and value >= 1 << 31) else ""


def _float(value: float) -> str:
    """Return the shortest text that reads back as the same float32."""
    import numpy as np

    if math.isnan(value):
        return '__builtin_nanf("")'
    if math.isinf(value):
        return "-__builtin_inff()" if value < 0 else "__builtin_inff()"
    text = str(np.float32(value))
    return f"{text}f" if "." in text or "e" in text else f"{text}.0f"


def natural(value: int | float) -> DType:
    """Return the type that C++ gives to a constant."""
    if isinstance(value, bool):
        return int1
    if isinstance(value, float):
        return float32
    return int32 if -(1 << 31) <= value < 1 << 31 else int64 if value < 1 << 63 else uint64


def convert(code: Code, dtype: DType) -> Code:
    """Emit an explicit conversion."""
    if code.dtype == dtype:
        return code
    if code.dtype == bfloat16:
        return convert(Code(f"ToFloat({code.text})", float32), dtype)
    if dtype == bfloat16:
        return Code(f"ToBfloat16({convert(code, float32).text})", bfloat16)
    if dtype.is_bool:
        return Code(f"{code.inside(COMPARED)} != 0", int1, LEVEL["!="])
    return Code(f"static_cast<{CTYPES[dtype.mnemonic]}>({code.text})", dtype)


def scalar(value: Scalar, names: Names) -> Code:
    """Emit a scalar expression."""
    if isinstance(value, str):
        return names.of(value)
    if isinstance(value, Expr):
        return _expression(value, names)
    if isinstance(value, Read):
        return Code(f"{tensor(value.view, names, bare=True)}.GetValue({place(value.view, names)})", value.view.elem)
    return constant(value, natural(value))


def _expression(value: Expr, names: Names) -> Code:
    if value.op in ("min", "max"):
        return _extreme(value, names)
    if value.op == "?:":
        condition, a, b = (scalar(x, names) for x in value.args)
        a, b = _alike(a, b)
        return Code(f"{condition.inside(LOGIC)} ? {a.inside(LOGIC)} : {b.inside(CHOICE)}", a.dtype, CHOICE)
    if value.op == "not":
        return _negated(value.args[0], names)
    dtype = named(value.op)
    if dtype is not None:
        return _converted(value.args[0], dtype, names)
    return _binary(value.op, value.args, names) if value.op in LEVEL else _called(value.op, value.args, names)


def _negated(value: Scalar, names: Names) -> Code:
    compared = value if isinstance(value, Expr) and value.op in COMPLEMENTS else None
    if compared and not any(scalar(x, names).dtype.is_float for x in compared.args):
        return _binary(COMPLEMENTS[compared.op], compared.args, names)
    code = scalar(value, names)
    return Code(f"{'!' if code.dtype.is_bool else '~'}{code.inside(UNARY)}", code.dtype, UNARY)


def _called(name: str, args: tuple[Scalar, ...], names: Names) -> Code:
    """Emit a call of a helper function, which is emitted in front of the kernel."""
    if (part := parts().get(name)) is None:
        raise CompilerBug(f"Block IR has no operator {name!r}")
    names.helpers.add(name)
    texts = [_bits(x) if isinstance(x, int) and ctype == "uint64_t" else argument(x, ctype, names)
             for x, ctype in zip(args, part.takes, strict=True)]  # fmt: skip
    return Code(f"{name}({', '.join(texts)})", _dtype(part.gives))


def _bits(value: int) -> str:
    return f"{value:#x}u" if value > 9 else f"{value}u"


def _converted(value: Scalar, dtype: DType, names: Names) -> Code:
    if isinstance(value, int | float):
        return constant(value, dtype)
    return convert(scalar(value, names), dtype)


def _extreme(value: Expr, names: Names) -> Code:
    """Emit a minimum or maximum: a conditional on names, a helper call where an operand would be computed twice."""
    a, b = _alike(*(scalar(x, names) for x in value.args))
    sign = "<" if value.op == "min" else ">"
    if all(not isinstance(x, Expr | Read) for x in value.args):
        return Code(f"{a.text} {sign} {b.text} ? {a.text} : {b.text}", a.dtype, CHOICE)
    helper = "Lesser" if value.op == "min" else "Greater"
    names.helpers.add(helper)
    return Code(f"{helper}<{CTYPES[a.dtype.mnemonic]}>({a.text}, {b.text})", a.dtype)


def _alike(a: Code, b: Code) -> tuple[Code, Code]:
    """Convert two operands to their common type, explicitly where C++ would convert without a word."""
    if a.dtype == b.dtype:
        return a, b
    dtype = b.dtype if _holds(b.dtype, a) else a.dtype if _holds(a.dtype, b) else joined(a.dtype, b.dtype)
    return _up(a, dtype), _up(b, dtype)


def _holds(dtype: DType, code: Code) -> bool:
    """Whether an integer type can hold a constant."""
    least, greatest = dtype.integer_range if dtype.is_int else (1, 0)
    return _literal(code) and least <= int(code.text) <= greatest


def _literal(code: Code) -> bool:
    return code.text.removeprefix("-").isdigit()


def _up(code: Code, dtype: DType) -> Code:
    """Whether C++ widens an operand as the language does: where its sign does not change, and for constants."""
    if _literal(code) and dtype.is_float:
        return constant(int(code.text), dtype)
    if _literal(code):
        return Code(f"{code.text}{suffix(int(code.text), dtype)}", dtype, code.level)
    same = code.dtype.kind == dtype.kind and code.dtype.is_int and code.dtype.bits <= dtype.bits
    return Code(code.text, dtype, code.level) if same else convert(code, dtype)


def joined(a: DType, b: DType) -> DType:
    """Return the common type of two operands."""
    floats = [d for d in (a, b) if d.is_float]
    if floats:
        return floats[0] if len({d.mnemonic for d in floats}) == 1 and floats[0] == float16 and a == b else float32
    wide = a if a.bits >= b.bits else b
    if a.kind == b.kind or "bool" in (a.kind, b.kind):
        return wide if wide.bits > 8 else int32
    return uint64 if uint64 in (a, b) else int64


def _binary(op: str, args: tuple[Scalar, ...], names: Names) -> Code:
    second = args[1]
    if op in ("+", "-") and isinstance(second, int) and second < 0:
        op, args = "-" if op == "+" else "+", (args[0], -second)
    if op in ("<<", ">>") and type(args[0]) is int and type(second) is int and second > 31:
        return _shifted(op, args[0], second)  # C++ would shift in 32 bits
    if (known := _settled(op, args, names)) is not None:
        return Code("true" if known else "false", int1)
    a, b = _alike(*_plain(args, names))
    if op in ("&&", "||") and {a.text, b.text} & {"true", "false"}:
        return _without_words(op, a, b)
    text = f"{_around(op, a, args[0], False)} {'/' if op == '//' else op} {_around(op, b, args[1], True)}"
    if LEVEL[op] <= LOGIC or op in COMPLEMENTS:
        return Code(text, int1, LEVEL[op])
    wide = a.dtype.is_bool or a.dtype.bits >= 32
    return Code(text, a.dtype, LEVEL[op]) if wide else convert(Code(text, int32, LEVEL[op]), a.dtype)


def _shifted(op: str, a: int, b: int) -> Code:
    """Emit a shift of constants in 64 bits."""
    value = (a >> b if op == ">>" else a << b) & (1 << 64) - 1
    return scalar(value - (1 << 64) * (value >> 63), Names())


def _settled(op: str, args: tuple[Scalar, ...], names: Names) -> bool | None:
    """Fold a comparison with a constant that the integer's type decides. Compilers warn of such comparisons."""
    value, b = args
    if op not in COMPLEMENTS or type(b) is not int or isinstance(value, int | float):
        return None
    dtype = _narrowest(value, names)
    if not dtype.is_int or dtype.is_bool:
        return None
    least, greatest = dtype.integer_range
    always, never = {
        "<": (greatest < b, least >= b), "<=": (greatest <= b, least > b), ">": (least > b, greatest <= b),
        ">=": (least >= b, greatest < b), "==": (False, not least <= b <= greatest),
        "!=": (not least <= b <= greatest, False),
    }[op]  # fmt: skip
    return True if always else False if never else None


def _narrowest(value: Scalar, names: Names) -> DType:
    """Return the type of an integer before it was widened."""
    dtype = scalar(value, names).dtype
    if not isinstance(value, Expr) or named(value.op) is None or not dtype.is_int or dtype.is_bool:
        return dtype
    inner = _narrowest(value.args[0], names)
    if not inner.is_int or inner.is_bool:
        return dtype
    (least, greatest), (low, high) = inner.integer_range, dtype.integer_range
    return inner if low <= least and greatest <= high else dtype


def _without_words(op: str, a: Code, b: Code) -> Code:
    """Fold a conjunction or disjunction with a constant side."""
    word, other = (a, b) if a.text in ("true", "false") else (b, a)
    return other if (word.text == "true") == (op == "&&") else word


def _plain(args: tuple[Scalar, ...], names: Names) -> list[Code]:
    """Convert operands to types of the scalar unit: bfloat16 to float, narrow integers where C++ does not."""
    codes = [scalar(x, names) for x in args]
    for i, x in reversed(list(enumerate(args))):
        inner = _widening(x, names)
        if inner is not None and codes[1 - i].dtype == codes[i].dtype and not isinstance(args[1 - i], int):
            codes[i] = inner
            break
    return [convert(code, float32) if code.dtype == bfloat16 else code for code in codes]


def _widening(value: Scalar, names: Names) -> Code | None:
    """Return the operand of a widening conversion that C++ does by itself beside an operand of that width."""
    dtype = named(value.op) if isinstance(value, Expr) else None
    if not isinstance(value, Expr) or dtype is None or not dtype.is_int or isinstance(value.args[0], int | float):
        return None
    code = scalar(value.args[0], names)
    return code if code.dtype.kind == dtype.kind and code.dtype.bits < dtype.bits else None


def _around(op: str, code: Code, value: Scalar, right: bool) -> str:
    """Emit an operand, in parentheses where precedence or a reader needs them."""
    level = LEVEL[op]
    if not isinstance(value, Expr) or value.op not in LEVEL or code.level == ATOM:
        return code.inside(UNARY if op in _BITWISE else level + 1)
    if value.op == op and op in ("+", "*", "&&", "||", "&", "|", "^") and not (right and code.dtype.is_float):
        return code.inside(level)
    return f"({code.text})" if _misread(op, value.op) else code.inside(level + (1 if right else 0))


def _misread(op: str, inner: str) -> bool:
    """Whether two nested operators are easily misread. Compilers warn of most of these pairs."""
    if op in _BITWISE:
        return inner != op
    if op in COMPLEMENTS:
        return LEVEL[inner] < SUM
    return (op == "||" and inner == "&&") or (op == "*" and inner == "%")


def _dtype(ctype: str) -> DType:
    dtype = next((named(name) for name, text in CTYPES.items() if text == ctype), None)
    if dtype is None:
        raise CompilerBug(f"{ctype} is no type of a number")
    return dtype


def argument(value: Scalar, ctype: str, names: Names) -> str:
    """Emit a number as an argument of a C++ type."""
    dtype = _dtype(ctype)
    if isinstance(value, int | float):
        plain = ctype in _BITS and not 0 <= value < 1 << _BITS[ctype]
        if plain and value >= 0:
            raise CompilerBug(f"{value} does not fit {ctype}")
        return constant(value, dtype).text
    code = scalar(value, names)
    quiet = code.dtype.is_int and dtype.is_int and code.dtype.bits <= dtype.bits
    return code.text if quiet else convert(code, dtype).text


def tensor(view: View, names: Names, bare: bool = False) -> str:
    """Emit a view as a tensor with an offset. With `bare`, emit the tensor alone."""
    text = names.text[f"tensor {view.of.name}"]
    if view.dtype is not None and tensor_type(view.dtype) != tensor_type(view.of.dtype):
        text = f"{text}.ReinterpretCast<{tensor_type(view.dtype)}>()"
    at = place(view, names)
    return text if bare or at == "0" else f"{text}[{at}]"


def place(view: View, names: Names) -> str:
    """Emit the first element of a view. In a core's memory it counts over all stages."""
    if not isinstance(view.of, Buffer):
        return scalar(widened(view.offset, names), names).text
    stage = fold("*", view.stage, view.of.stage_bytes // view.elem.itemsize)
    offset = view.offset
    if not isinstance(offset, int) and not isinstance(stage, int) and scalar(stage, names).dtype == uint32:
        offset = Expr("uint32", (offset,))
    return argument(fold("+", stage, offset), "uint32_t", names)


def widened(value: Scalar, names: Names) -> Scalar:
    """Emit an offset into an array in 64 bits: its parts are widened where they could overflow."""
    if not isinstance(value, Expr) or value.op not in ("+", "-", "*"):
        return value
    parts = tuple(widened(x, names) for x in value.args)
    if all(isinstance(x, int) for x in parts):
        return fold(value.op, *parts)
    if any(scalar(x, names).dtype.bits == 64 for x in parts):
        return Expr(value.op, parts)
    first = next(i for i, x in enumerate(parts) if not isinstance(x, int))
    return Expr(value.op, tuple(Expr("int64", (x,)) if i == first else x for i, x in enumerate(parts)))
