"""Where in the user's source an op, a value or a diagnostic comes from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from linecache import getline
from pathlib import Path
from types import CodeType, FrameType


@dataclass(frozen=True, slots=True)
class Loc:
    """A span of the user's own source, and the call that led there.

    Parameters
    ----------
    file : str
        File name as `linecache` knows it (notebook cells and REPL inputs have one too).
    line, end_line : int
        First and last line, from 1.
    col, end_col : int
        First column and the column after the last one, in characters from 0.
    function : str
        Name of the function that the span lies in.
    call_site : Loc or None
        Where that function was called from, when it was inlined.
    label : str
        What the author calls this part of the kernel, by `with pto.label("…"):`; the outer name first, then `/`.

    Examples
    --------
    >>> str(Loc("kernels.py", 12, 4, 12, 9))
    'kernels.py:12:5'
    """

    file: str
    line: int
    col: int = 0
    end_line: int = 0
    end_col: int = 0
    function: str = ""
    call_site: Loc | None = None
    label: str = ""

    @staticmethod
    def of_code(code: CodeType) -> Loc:
        """The head of a function: the first line of its code."""
        text = getline(code.co_filename, code.co_firstlineno).rstrip()
        line, start = code.co_firstlineno, len(text) - len(text.lstrip())
        return Loc(code.co_filename, line, start, line, len(text))

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.col + 1}"

    def loc(self, _: object = None) -> Loc:
        """The span itself; a `Caller` finds its span when it is asked."""
        return self

    @property
    def user(self) -> Loc:
        """The innermost place that is not in this package's own library."""
        if self.call_site is None or not self.file.startswith(str(Path(__file__).parent)):
            return self
        return self.call_site.user

    @property
    def chain(self) -> list[Loc]:
        """This place and the calls that led there, innermost first."""
        return [self, *(self.call_site.chain if self.call_site else ())]


@dataclass(frozen=True, slots=True)
class Caller:
    """A call that a program makes of ours; where it stands is found out when that is asked for."""

    code: CodeType
    instruction: int
    line: int

    @staticmethod
    def of(frame: FrameType) -> Caller:
        """The call that a frame is at."""
        return Caller(frame.f_code, frame.f_lasti // 2, frame.f_lineno)

    def loc(self, _: object = None) -> Loc:
        """The span of the call."""
        line, last, start, end = span_of(self.code, self.instruction)
        function = "" if self.code.co_name.startswith("<") else self.code.co_name
        return Loc(self.code.co_filename, line or self.line, start or 0, last or self.line, end or 0, function)


@lru_cache(maxsize=4096)
def span_of(code: CodeType, instruction: int) -> tuple[int | None, int | None, int | None, int | None]:
    """First and last line, first column and the column after the last one of an instruction."""
    return next(islice(code.co_positions(), instruction, None))


UNKNOWN = Loc("<unknown>", 0)
