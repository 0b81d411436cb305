"""Diagnostics of Tile IR itself: text that cannot be read, and IR that breaks a rule."""

from __future__ import annotations

from pypto.errors.base import CompilerBug, Diagnostic
from pypto.errors.examples import programs


class IRTextError(Diagnostic, ValueError):
    """Text that is no Tile IR; the field `line` counts from 1."""

    code = "E901"
    template = "IR text, line {line}: {problem}"
    example = programs(
        """
        from pypto.ir.parser import parse_function

        parse_function("kernel @f( { yield }")
        """,
        """
        from pypto.ir.parser import parse_function

        parse_function("kernel @f() { yield }")
        """,
    )


class InvalidIR(Diagnostic, CompilerBug):
    """IR that the verifier rejects."""

    code = "E902"
    template = "invalid IR in `{op}`: {problem}"
    hint = "the front end or a pass made this IR, so this is a fault of pypto: please report it with the kernel"
    example = programs(
        """
        from pypto.ir.parser import parse_function
        from pypto.ops.table import TABLE
        from pypto.ops.verify import verify

        verify(parse_function("kernel @f() { }"), TABLE)
        """,
        """
        from pypto.ir.parser import parse_function
        from pypto.ops.table import TABLE
        from pypto.ops.verify import verify

        verify(parse_function("kernel @f() { yield }"), TABLE)
        """,
    )
