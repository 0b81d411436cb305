"""Everything that pypto raises or warns with. One class is one diagnostic, with one template."""

from pypto.errors.base import (
    CacheWarning,
    CompilerBug,
    Diagnostic,
    OptionError,
    PyptoError,
    PyptoWarning,
    SlowCompilation,
)

__all__ = [
    "CacheWarning",
    "CompilerBug",
    "Diagnostic",
    "OptionError",
    "PyptoError",
    "PyptoWarning",
    "SlowCompilation",
]
