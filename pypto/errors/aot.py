"""What can be wrong with kernels that are compiled ahead of time, and with libraries of them."""

from __future__ import annotations

from pypto.errors.base import Diagnostic
from pypto.errors.examples import libraries


class NotAhead(Diagnostic, ValueError):
    code = "E331"
    template = "{kernel} cannot be compiled ahead of time: {problem}"
    example = libraries(
        "build(f, [{'x': x, 'y': y}], path, 'object', ['sparc'])", "build(f, [{'x': x, 'y': y}], path, 'object')"
    )


class NoLinker(Diagnostic, RuntimeError):
    code = "E332"
    template = "{output} cannot be linked: {problem}"
    hint = "install a C compiler or name one in CC; an object (`--emit object`) needs none"
    example = libraries(
        "os.environ['CC'] = '/nowhere/cc'\n"
        "try:\n    build(f, [{'x': x, 'y': y}], path, 'shared')\nfinally:\n    del os.environ['CC']",
        "build(f, [{'x': x, 'y': y}], path, 'shared')",
    )


class NotALibrary(Diagnostic, ValueError):
    code = "E333"
    template = "{path} is no library of kernels: {problem}"
    hint = "`pypto compile FILE:KERNEL … --emit shared` makes one"
    example = libraries("pypto.aot.load(path)", "build(f, [{'x': x, 'y': y}], path, 'shared')\npypto.aot.load(path)")


class NoVersion(Diagnostic, TypeError):
    code = "E334"
    template = "{kernel}: no version in {path} takes these arguments: {problem}"
    hint = 'pass arguments that a version takes, or compile one for these: `pypto compile … --also "…"`'
    example = libraries(
        "build(f, [{'x': x, 'y': y}], path, 'shared')\npypto.aot.load(path).f[1](x.astype(np.float64), y)",
        "build(f, [{'x': x, 'y': y}], path, 'shared')\npypto.aot.load(path).f[1](x, y)",
    )


class MissingFeatures(Diagnostic, RuntimeError):
    code = "E335"
    template = "{kernel}: this CPU has none of the feature levels in {path}: {levels}"
    hint = "compile for a lower one, as in `--level x86-64-v2`"
    example = libraries(
        "build(f, [{'x': x, 'y': y}], path, 'shared')\n"
        "raise pypto.aot.MissingFeatures(kernel='f', path=path, levels='x86-64-v4')",
        "build(f, [{'x': x, 'y': y}], path, 'shared')\npypto.aot.load(path).f[1](x, y)",
    )
