"""The package's files as a part of keys: by name, size and times, since to read them takes longer than a launch.

Python takes its own bytecode by size and time of a source, too.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from pypto._platform import IMPORTED, PACKAGE

SOURCES: Final = (".py", ".ll", ".h", ".c")


def package_files(other: str = PACKAGE) -> str:
    """A hash over names, sizes and times of the package's files, and of those in another place.

    It is empty where one was edited since this process imported the package: what runs is not what lies there.
    """
    return files_hash((PACKAGE,) if f"{other}{os.sep}".startswith(PACKAGE + os.sep) else (PACKAGE, other))


@lru_cache(maxsize=16)
def files_hash(places: tuple[str, ...]) -> str:
    rows = sorted(row for place in places for row in file_rows(place))
    is_edited = max(row[-1] for row in rows) > IMPORTED
    return "" if is_edited else hashlib.sha256(repr(rows).encode()).hexdigest()


def file_rows(place: str) -> Iterator[tuple[str, int, int, int]]:
    """The sources in a folder, or the one file: name, size, and times of the last change of content and of anything."""
    if not os.path.isdir(place):
        status = os.stat(place)
        yield place, status.st_size, status.st_mtime_ns, status.st_ctime_ns
        return
    with os.scandir(place) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from () if entry.name == "__pycache__" else file_rows(entry.path)
            elif entry.name.endswith(SOURCES):
                status = entry.stat()
                yield entry.path, status.st_size, status.st_mtime_ns, status.st_ctime_ns
