"""Kernels of public libraries: where they are, and how their files are loaded although half of what they import is not.

Nothing of them is kept in this repository. Files come from GitHub when they are first needed, and stay in the folder
that KERNEL_SOURCES names, as ``owner+name/commit/path``.
"""

from __future__ import annotations
import __future__

import ast
import importlib
import importlib.abc
import importlib.machinery
import os
import re
import sys
import tempfile
import types
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

FLAGS = {name: getattr(__future__, name).compiler_flag for name in __future__.all_feature_names}
TIMEOUT = 10
ON_GPU = re.compile(
    r"""(device(?:_type)?\s*=\s*['"]|torch\.device\(['"])cuda(['"])"""
)  # the one edit: where arrays are allocated


class Unavailable(Exception):
    """Neither the folder nor the network has a file."""


@dataclass(frozen=True)
class Repository:
    """A library at one commit: `package` is what its modules are imported as, and lies under `prefix`."""

    name: str
    commit: str
    package: str
    prefix: str

    def text(self, path: str) -> str | None:
        """A file's text, or None where the library has no such file."""
        place = folder() / self.name.replace("/", "+") / self.commit / path
        if not place.exists():
            if not online():
                return None
            self.fetch(path, place)
        text = place.read_text(encoding="utf-8").replace(".is_cuda", ".is_cpu")
        return ON_GPU.sub(r"\1cpu\2", text) or None

    def fetch(self, path: str, place: Path) -> None:
        """Bring a file from GitHub; one that is not there is kept as an empty one."""
        url = f"https://raw.githubusercontent.com/{self.name}/{self.commit}/{path}"
        try:
            with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:
                content = answer.read()
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise Unavailable(f"{url}: {error}") from error
            content = b""
        except OSError as error:
            raise Unavailable(f"{url}: {error}") from error
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)


def folder() -> Path:
    return Path(os.environ.get("KERNEL_SOURCES") or Path(tempfile.gettempdir()) / "kernel-sources")


def online() -> bool:
    return os.environ.get("KERNEL_SOURCES_OFFLINE") != "1"


class Anything:
    """Stands for what could not be imported or computed: a decorator that does nothing, an object without content."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in (
            "kernel_source",
            "host_function",
            "as_argument",
            "data_ptr",
            "fn",
            "dtype",
        ):
            raise AttributeError(name)
        return Anything(name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        only = len(args) == 1 and not kwargs and callable(args[0]) and not isinstance(args[0], Anything)
        return args[0] if only else self

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __bool__(self) -> bool:
        return False

    def __getitem__(self, key: Any) -> Any:
        return self

    def __mro_entries__(self, bases: Any) -> tuple[()]:
        return ()

    def __lt__(self, other: Any) -> bool:
        return False

    __gt__ = __le__ = __ge__ = __lt__

    def __or__(self, other: Any) -> Any:
        return self

    __ror__ = __or__


class Loader(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports modules of repositories, one statement after the other; what a statement fails to bind is `Anything`."""

    def __init__(self, repositories: Sequence[Repository]) -> None:
        self.repositories = {r.package: r for r in repositories}
        self.texts: dict[str, tuple[Repository, str, str]] = {}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        repository = self.repositories.get(name.split(".", maxsplit=1)[0])
        if repository is None:
            return None
        stem = "/".join([repository.prefix, *name.split(".")[1:]]).strip("/")
        for file, is_package in ((f"{stem}.py", False), (f"{stem}/__init__.py", True)):
            text = None if name == repository.package else repository.text(file)
            if text is not None:
                self.texts[name] = (repository, file, text)
                return importlib.machinery.ModuleSpec(name, self, is_package=is_package)
        return importlib.machinery.ModuleSpec(name, self, is_package=True)  # a folder without a file of its own

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        if module.__name__ in self.texts:
            repository, file, text = self.texts[module.__name__]
            module.__file__ = str(folder() / repository.name.replace("/", "+") / repository.commit / file)
            run(module, text, module.__file__)


def run(module: types.ModuleType, text: str, file: str) -> None:
    """Every statement of a file, as it stands there."""
    tree = ast.parse(text, file)
    features = [n for n in tree.body if isinstance(n, ast.ImportFrom) and n.module == "__future__"]
    flags = sum(FLAGS[a.name] for n in features for a in n.names)
    for node in tree.body:
        if node in features or (isinstance(node, ast.If) and "__main__" in ast.unparse(node.test)):
            continue
        try:
            execute(module, node, file, flags)
        except Unavailable:
            raise
        except Exception as error:  # whatever a library does at import, without its GPU
            stand_in(module, node, file, flags, error)


def execute(module: types.ModuleType, node: ast.stmt, file: str, flags: int) -> None:
    exec(compile(ast.Module([node], []), file, "exec", flags, dont_inherit=True), vars(module))


def stand_in(module: types.ModuleType, node: ast.stmt, file: str, flags: int, error: Exception) -> None:
    """Bind the names of a statement that failed. Of a function's decorators, those of Triton may work alone."""
    module.__dict__.setdefault("__failures__", []).append((node.lineno, error))
    if isinstance(node, ast.FunctionDef) and node.decorator_list:
        first = node.decorator_list[0]  # where a function begins, which its source is found by
        kept = [d for d in node.decorator_list if ast.unparse(d).startswith("triton.jit")]
        node.decorator_list = [ast.copy_location(d, first) for d in kept]
        with suppress(Exception):
            execute(module, node, file, flags)
            return
    names: dict[str, Any] = {}
    if isinstance(node, ast.Import | ast.ImportFrom):
        for alias in node.names:
            try:
                execute(module, one_import(node, alias), file, flags)
            except Unavailable:
                raise
            except Exception:  # this one is what fails
                name = (alias.asname or alias.name).split(".")[0]
                names[name] = Anything(name)
    elif isinstance(node, ast.FunctionDef | ast.ClassDef):
        names[node.name] = Anything(node.name)
    elif isinstance(node, ast.Assign):
        names = {t.id: Anything(t.id) for t in node.targets if isinstance(t, ast.Name)}
    for name, value in names.items():
        module.__dict__.setdefault(name, value)


def one_import(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> ast.stmt:
    single = ast.Import([alias]) if isinstance(node, ast.Import) else ast.ImportFrom(node.module, [alias], node.level)
    return ast.fix_missing_locations(ast.copy_location(single, node))


@contextmanager
def cpu_for_cuda() -> Iterator[None]:
    """What launchers ask of `torch.cuda` is answered for a CPU."""
    figures = types.SimpleNamespace(multi_processor_count=2, total_memory=1 << 33, name="CPU")
    with (
        patch("torch.cuda.device", lambda index: nullcontext()),
        patch("torch.cuda.current_device", lambda: 0),
        patch("pypto.testing.Mark.run", lambda self, **kwargs: None),  # no measuring
        patch("torch.cuda.get_device_capability", lambda index=None: (0, 0)),
        patch("torch.cuda.get_device_properties", lambda index=None: figures),
    ):
        yield


@contextmanager
def libraries(repositories: Sequence[Repository]) -> Iterator[None]:
    """Serve `triton` and the libraries to imports for the length of a `with` block."""
    from pypto.compat.triton import install, installed, uninstall

    was, finder = installed(), Loader(repositories)
    install()
    sys.meta_path.insert(0, finder)
    try:
        with cpu_for_cuda():
            yield
    finally:
        sys.meta_path.remove(finder)
        for name in [n for n in sys.modules if n.split(".")[0] in finder.repositories]:
            del sys.modules[name]
        if not was:
            uninstall()


def load(repository: Repository, path: str) -> types.ModuleType:
    """The module of a file below the package."""
    stem = path.removesuffix(".py").replace("/", ".")
    return importlib.import_module(f"{repository.package}.{stem}")
