"""The build hook: one sentence on a platform that cannot run pypto, and what the wheel carries beside the package."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WheelHook(BuildHookInterface[Any]):
    """Runs for every wheel built from the checkout, editable ones too."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        sentence = refusal(self.root)
        if sentence is not None:
            sys.exit(sentence)  # pip shows these words; of an exception it would show a page of frames
        for folder, inside in (("runtime", "_runtime_sources"), ("tutorials", "_tutorials")):
            if Path(self.root, folder).is_dir():
                build_data["force_include"][folder] = f"pypto/{inside}"


def refusal(root: str) -> str | None:
    """Why pypto does not run here: the words of the import check, read from its file without importing pypto."""
    platform = runpy.run_path(str(Path(root, "pypto", "_platform.py")))
    sentence: str | None = platform["refusal"](platform["Host"].current())
    return sentence
