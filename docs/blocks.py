"""The blocks of code on a page, and how the tests run them.

A page's blocks of ``python`` are run one after another in one namespace, as the cells of a notebook are. What a block
prints is the block of ``text`` that follows at once, or else the comments behind its calls of `print`. A block that
begins with ``# kernels.py`` stands in a file of that name, too. Blocks of ``console`` hold commands behind ``$``, each
with what it says, or with nothing where that does not matter. ``…`` stands for any text, or any lines. What is only to
be read (installing, settings of a shell) is ``sh`` or ``text``. A page that begins with ``<!-- needs: torch -->`` runs
where that library is installed.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

FENCE: Final = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$(?=(?:\n*^```text\n(.*?)^```$)?)", re.MULTILINE | re.DOTALL)
LANGUAGES: Final = ("python", "console", "text", "sh", "c", "cpp", "pycon", "toml", "ini", "make", "")
NEEDS: Final = re.compile(r"<!-- needs: ([\w, ]+) -->\n")
NAMED: Final = re.compile(r"# (\w+\.py)\n")


@dataclass(frozen=True)
class Block:
    """A fenced block: where it begins, its language and text, and the block of text that follows at once."""

    line: int
    language: str
    text: str
    following: str | None

    @property
    def expected(self) -> str:
        """What the block prints."""
        if self.following is not None:
            return self.following
        said = (re.search(r"^ *print\(.*\)\s+# (.*)", line) for line in self.text.splitlines())
        return "".join(f"{m[1]}\n" for m in said if m)


def blocks(text: str) -> list[Block]:
    return [Block(text.count("\n", 0, m.start()) + 1, m[1], m[2], m[3]) for m in FENCE.finditer(text)]


def needs(text: str) -> list[str]:
    """Libraries without which a page's blocks are not run."""
    found = NEEDS.match(text)
    return found[1].replace(",", " ").split() if found else []


def run_page(path: Path, folder: Path) -> int:
    """Run a page's blocks in `folder`, which is the working directory; how many there were.

    Raises
    ------
    AssertionError
        When a block fails or says something else than the page, with the block's line.
    """
    page = ModuleType("page")
    found = [b for b in blocks(path.read_text(encoding="utf-8")) if b.language in ("python", "console")]
    for block in found:
        where = f"{path.name}, line {block.line}"
        if block.language == "console":
            for command, expected in commands(block.text):
                check(run_command(command, folder), expected, f"{where}: {command}", expected != "")
            continue
        check(run_python(block, page, folder), block.expected, where, True)
    return len(found)


def run_python(block: Block, page: ModuleType, folder: Path) -> str:
    named = NAMED.match(block.text)
    file = folder / (named[1] if named else f"line{block.line}.py")
    file.write_text(block.text, encoding="utf-8")
    if named:  # another page may have a file of that name
        sys.modules.pop(file.stem, None)
        importlib.invalidate_caches()
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(block.text, str(file), "exec"), page.__dict__)
    return output.getvalue()


def commands(text: str) -> list[tuple[str, str]]:
    """Commands and what the page shows of their output."""
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
    lines = [part.replace("\\\n", " ").partition("\n") for part in parts]
    return [(command, output) for command, _, output in lines]


def run_command(command: str, folder: Path) -> str:
    """Output of `pypto …` in this process, or of `python …` in its own."""
    program, *arguments = shlex.split(command, comments=True)
    if program == "python":
        script = [sys.executable, *arguments]
        done = subprocess.run(script, cwd=folder, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout
    assert program == "pypto", f"the page's command `{command}` is not one that the tests run"
    return run_pypto(arguments)


def run_pypto(arguments: list[str]) -> str:
    from typer.testing import CliRunner

    from pypto.cli.app import make_app

    result: Any = CliRunner().invoke(make_app(), arguments)
    assert result.exit_code == 0, result.output
    return str(result.output)


def check(found: str, expected: str, where: str, all_of_it: bool) -> None:
    """Hold what was printed to what the page shows."""
    if all_of_it:
        pattern = re.escape(trimmed(expected)).replace("…", ".*?")
        assert re.fullmatch(pattern, trimmed(found), re.DOTALL), f"{where} prints\n{found}"


def trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())
