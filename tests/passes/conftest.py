"""Text in, text out."""

from collections.abc import Callable

import pytest

from pypto.ir.core import Function
from pypto.ir.parser import parse_function
from pypto.ir.printer import print_function
from pypto.ops.table import TABLE
from pypto.ops.verify import verify

SCALARS = "%n: i32, %m: i32, %k: i64, %u: u32, %b: i1, %c: i1, %f: f32, %g: f32, %h: f16"
MATRICES = "%lhs: array<f32, 2>, %rhs: array<f32, 2>, %out: array<f32, 2>, %half: array<bf16, 2>"
ARGS = f"{SCALARS}, %x: array<f32, 1>, %y: array<f32, 1>, {MATRICES}"


def kernel(body: str, attributes: str = "") -> Function:
    """A valid kernel with arguments of many types around some ops."""
    function = parse_function(f"kernel @f({ARGS}) {attributes} {{ {body} yield }}")
    verify(function, TABLE)
    return function


def body_of(function: Function) -> list[str]:
    """The lines of a kernel's body without its last `yield`."""
    return [line[2:] for line in print_function(function).splitlines()[1:-2]]


@pytest.fixture
def becomes() -> Callable[..., None]:
    """Asserts that a pass makes one body of another, and that the result is valid."""

    def check(run: Callable[[Function], Function], before: str, after: str, attributes: str = "") -> None:
        source = kernel(before, attributes)
        text = print_function(source)
        result = run(source)
        verify(result, TABLE)
        assert body_of(result) == body_of(kernel(after, attributes))
        assert print_function(source) == text, "a pass must leave its input as it was"

    return check


@pytest.fixture
def make_kernel() -> Callable[..., Function]:
    return kernel
