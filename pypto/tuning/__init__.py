"""Choosing a kernel's constants: by trial (`autotune`), or by rules (`heuristics`)."""

from pypto.tuning.autotune import Autotuner, Config, autotune
from pypto.tuning.heuristics import Heuristics, heuristics
from pypto.tuning.launching import KernelInterface

__all__ = ["Autotuner", "Config", "Heuristics", "KernelInterface", "autotune", "heuristics"]
