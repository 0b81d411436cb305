"""``python -m pypto.compat.triton script.py [arguments]``: run a script for Triton, unchanged, on pypto."""

from __future__ import annotations

import linecache
import os
import runpy
import sys

from pypto.compat.triton import install

USAGE = """usage: python -m pypto.compat.triton [-m module | -c code | script.py] [arguments]

Runs Python as usual, but `import triton` gives pypto."""


def main(args: list[str]) -> None:
    """Run a script, a module or a line of code as `__main__`."""
    if not args or args[0] in ("-h", "--help") or (args[0] in ("-m", "-c") and len(args) < 2):
        print(USAGE)
        sys.exit(0 if args and args[0] in ("-h", "--help") else 2)
    install()
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # Inductor's other processes would find no Triton
    if args[0] == "-m":
        sys.argv, sys.path[:0] = args[1:], [os.getcwd()]
        runpy.run_module(args[1], run_name="__main__", alter_sys=True)
    elif args[0] == "-c":
        sys.argv = ["-c", *args[2:]]
        run_code(args[1])
    else:
        sys.argv, sys.path[:0] = args, [os.path.dirname(os.path.abspath(args[0]))]
        runpy.run_path(args[0], run_name="__main__")


def run_code(text: str) -> None:
    """Code of the command line; kernels in it find their source."""
    file = "<pypto -c>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    sys.modules["__main__"].__dict__["__file__"] = file
    exec(compile(text, file, "exec"), {"__name__": "__main__", "__file__": file})


if __name__ == "__main__":
    main(sys.argv[1:])
