"""Choosing a kernel's constants: by trial (`autotune`), or by rules (`heuristics`).

Read `config` (what is tried), `decorator`, `autotune`, `candidates`, `order`, `search` and `bench`; then `agreement`
(wrong candidates), `checking`, `grids`, `model` and `estimates` (predicted times), `snapshot`, `interrupts`, `store`,
`tile_sizes` (where plans begin). Rules: `heuristics`. What both wrap: `launching`. What users see: `report`, `live`,
`card`.
"""

from pypto.tuning.autotune import Autotuner
from pypto.tuning.config import Config, Space
from pypto.tuning.decorator import autotune
from pypto.tuning.heuristics import Heuristics, heuristics
from pypto.tuning.launching import KernelInterface
from pypto.tuning.report import TuningReport
from pypto.tuning.store import TuningFileError

__all__ = [
    "Autotuner", "Config", "Heuristics", "KernelInterface", "Space", "TuningFileError", "TuningReport", "autotune",
    "heuristics",
]  # fmt: skip
