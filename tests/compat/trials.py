"""All trials, in order."""

from __future__ import annotations

from types import ModuleType

from tests.compat import world_fla, world_library, world_liger, world_models, world_serving, world_tutorials
from tests.compat.world import REPOSITORIES, Trial


def trials(module: ModuleType) -> tuple[Trial, ...]:
    return tuple(x for x in vars(module).values() if isinstance(x, Trial))


LIBRARIES = tuple(t for m in (world_liger, world_fla, world_models, world_serving, world_library) for t in trials(m))
TRIALS = (*world_tutorials.TRIALS, *LIBRARIES)
SOURCES = (*REPOSITORIES, *world_tutorials.TUTORIALS.values())
