"""Scanner of Loop IR: the tokens of one line of its text, taken from left to right."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NoReturn

from pypto.errors.ir import IRTextError

_TOKEN: Final = re.compile(r"\s*(%\w+|-?\d+(?:x\d+)*|\w+|->|\S)")


@dataclass
class LineParser:
    """The tokens of one line."""

    number: int
    text: str
    position: int = 0

    def fail(self, problem: str) -> NoReturn:
        raise IRTextError(line=self.number, problem=problem)

    def peek(self) -> str:
        token = _TOKEN.match(self.text, self.position)
        return token[1] if token is not None else ""

    def take(self, pattern: str, wanted: str) -> str:
        """The next token, which has to be of a form."""
        token = self.peek()
        match = _TOKEN.match(self.text, self.position)
        if match is None or not re.fullmatch(pattern, token):
            self.fail(f"expected {wanted}, not `{token or 'the end of the line'}`")
        self.position = match.end()
        return token

    def accept(self, *words: str) -> bool:
        """Whether the line goes on with these words, which are taken then."""
        start = self.position
        for word in words:
            if self.peek() != word:
                self.position = start
                return False
            self.take(re.escape(word), word)
        return True

    def expect(self, *words: str) -> None:
        for word in words:
            self.take(re.escape(word), f"`{word}`")

    def number_after(self, *words: str, default: int = 0) -> int:
        """The number behind these words, where the line goes on with them."""
        return self.integer() if self.accept(*words) else default

    def number_behind(self, word: str) -> int:
        """The number behind a word, which has to be there."""
        self.expect(word)
        return self.integer()

    def number_between(self, first: str, last: str) -> int:
        """The number between two words, or 1 where the line does not go on so."""
        if not self.accept(first):
            return 1
        number = self.integer()
        self.expect(last)
        return number

    def integer(self) -> int:
        return int(self.take(r"-?\d+", "a number"))

    def sizes(self) -> tuple[int, ...]:
        """Sizes as in `8x64`."""
        return tuple(map(int, self.take(r"\d+(x\d+)*", "sizes such as 8x64").split("x")))

    def end(self) -> None:
        if self.peek():
            self.fail(f"`{self.peek()}` has no meaning here")
