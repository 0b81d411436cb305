"""`import triton` gives pypto, where no Triton is installed.

`start` runs in every process, since `pypto_triton.pth` calls it, so this module imports nothing that Python has not
loaded already. The package has no file named `triton`: it can overwrite none. The variable PYPTO_TRITON decides for a
process and its children: with 1, pypto comes before a Triton that is installed; with 0, nothing is served.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec

NAME = "triton"
VERSION = "3.4.0"  # of Triton's interface, as `triton.__version__` says it
METADATA = {
    "METADATA": f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {VERSION}\nSummary: pypto under this name\n",
    "top_level.txt": NAME,
}
CHOICE = "PYPTO_TRITON"
FOLDER = __file__.rpartition("pypto_triton")[0].rstrip("/\\")


class Finder:
    """Finds `triton`, and its metadata, where nothing else does."""

    has_warned = False

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        """The module for the name `triton`; a Triton that is installed comes first, and a warning says so once."""
        if name != NAME:
            return None
        found = None if chosen() == "1" else other_triton(path, target)
        if found is None:
            return ModuleSpec(NAME, Loader(), origin=__name__, is_package=True)
        if not cls.has_warned:
            import warnings

            cls.has_warned = True
            text = f"`import {NAME}` gives the Triton at {found.origin}, and pypto-triton does nothing beside it: "
            warnings.warn(f"{text}uninstall one of the two, or set {CHOICE}=1", stacklevel=2)
        return found

    @staticmethod
    def find_distributions(context):
        """The metadata of `triton`, by which pip finds a requirement of it fulfilled; that of another comes first."""
        is_listing = context.name is None and FOLDER in context.path
        if context.name != NAME and not is_listing:
            return []
        from importlib.metadata import Distribution, DistributionFinder, MetadataPathFinder

        class Triton(Distribution):
            def read_text(self, filename):
                return METADATA.get(filename)

            def locate_file(self, path):
                return path

        named = DistributionFinder.Context(name=NAME, path=context.path)
        return [] if list(MetadataPathFinder.find_distributions(named)) else [Triton()]


class Loader:
    """Loads pypto's modules under the name `triton`."""

    @staticmethod
    def create_module(spec):
        from pypto.compat.triton import install

        return install()

    @staticmethod
    def exec_module(module):
        """The module is whole already."""


def other_triton(path=None, target=None):
    """The module of a Triton that is installed. A folder of that name without code, as of a checkout, is none."""
    for finder in sys.meta_path:
        if finder is Finder or not hasattr(finder, "find_spec"):
            continue
        spec = finder.find_spec(NAME, path, target)
        if spec is not None and spec.loader is not None and spec.origin is not None:
            return spec
    return None


def chosen():
    """What PYPTO_TRITON says: 0, 1, or nothing."""
    return os.environ.get(CHOICE, "")


def start():
    """Puts the finder before the others, which would take a mere folder `triton` for a package."""
    if chosen() != "0" and Finder not in sys.meta_path:
        sys.meta_path.insert(0, Finder)
