"""Texts of Tile IR for tests of passes over products: three matrices, loads of their tiles, and a loop along K."""

from __future__ import annotations

ARRAYS = {"a": "lhs", "b": "rhs", "o": "out"}
# A pointer, the stride of rows and both extents of each matrix, and some numbers.
POINTERS = "".join(
    f"""
    %p{short}: ptr<f32> = array_ptr %{array}
    %s{short}: i64 = array_stride %{array} {{dim = 0}}
    %r{short}: i64 = array_shape %{array} {{dim = 0}}
    %c{short}: i64 = array_shape %{array} {{dim = 1}}"""
    for short, array in ARRAYS.items()
)
NUMBERS = "%zero: i64 = constant {value = 0} %one: i64 = constant {value = 1}"
PRELUDE = f"{POINTERS}\n{NUMBERS}"


def prelude_without(*names: str) -> str:
    """The prelude without what nothing reads any more."""
    return "\n".join(line for line in PRELUDE.splitlines() if not line.strip().startswith(names))


def load(name: str, matrix: str, row: str, column: str, shape: tuple[int, int], **ends: str) -> str:
    """A tile of a matrix, up to its extents or up to `rows` and `columns`."""
    first, second = ends.get("rows", f"%r{matrix}"), ends.get("columns", f"%c{matrix}")
    access = f"%p{matrix}, {row}, {column}, %s{matrix}, %one, {first}, {second}"
    return f"{name}: tile<{shape[0]}x{shape[1]}xf32> = tile_load {access} {{masked = false, shape = {[*shape]}}}"


def store(value: str, row: str, column: str, shape: tuple[int, int], **ends: str) -> str:
    """A tile of the result."""
    first, second = ends.get("rows", "%ro"), ends.get("columns", "%co")
    access = f"%po, {row}, {column}, %so, %one, {first}, {second}, {value}"
    return f"tile_store {access} {{masked = false, shape = {[*shape]}}}"
