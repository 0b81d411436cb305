"""`triton._filecheck`: texts of Triton's IR are compared in it, which pypto does not make."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, NoReturn

from pypto.compat.triton.driver import GPUTarget

stub_target: Final = GPUTarget("cuda", 100, 32)


class MatchError(ValueError):
    """A text of IR that is not as expected."""

    def __init__(self, message: str, module_str: str) -> None:
        super().__init__(message)
        self.module_str = module_str


def run_filecheck(name: str, module_str: str, check_template: str) -> NoReturn:
    raise NotImplementedError("pypto has no FileCheck: its own IR is another one than Triton's, see `kernel.inspect`")


def run_parser(kernel_fn: Any, args: Any = (), kwargs: Any = None, target: Any = stub_target) -> NoReturn:
    raise NotImplementedError("pypto makes no IR of Triton's; `kernel.warmup` compiles, and `kernel.inspect` shows how")


def run_filecheck_test(kernel_fn: Any) -> NoReturn:
    run_parser(kernel_fn)


def filecheck_test(fn: Any) -> Callable[[], Any]:
    """A test that compares the IR of a kernel."""

    @functools.wraps(getattr(fn, "fn", fn))
    def test_fn() -> NoReturn:
        run_filecheck_test(fn)

    del test_fn.__wrapped__  # its parameters are no fixtures
    return test_fn


def names() -> dict[str, Any]:
    functions = (MatchError, run_filecheck, run_parser, run_filecheck_test, filecheck_test)
    return {**{x.__name__: x for x in functions}, "stub_target": stub_target}
