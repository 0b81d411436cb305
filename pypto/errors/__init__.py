"""Everything that pypto raises or warns with. One class is one diagnostic, with one template.

Read `base` and `examples`. Kernels: `frontend`, `language`, `ir`, `advice`, `launch`, `interp`, `gradients`, `tuning`.
Devices and files: `device`, `ascend`, `aot`, `project`. Notebooks: `notebook`. Arrays and models: `graph`, `library`,
`routing`, `quant`, `inductor`.
"""

from pypto.errors.base import (
    CacheWarning,
    CompilerBug,
    Diagnostic,
    OptionError,
    PyptoError,
    PyptoWarning,
    SlowCompilation,
)

__all__ = ["CacheWarning", "CompilerBug", "Diagnostic", "OptionError", "PyptoError", "PyptoWarning", "SlowCompilation"]
