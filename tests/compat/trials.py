"""All trials, in order."""

from __future__ import annotations

from types import ModuleType

from tests.compat import world_fla, world_hub, world_library, world_liger, world_models, world_serving, world_tutorials
from tests.compat.world import REPOSITORIES, Trial


def trials(module: ModuleType) -> tuple[Trial, ...]:
    return tuple(x for x in vars(module).values() if isinstance(x, Trial))


MODULES = (world_liger, world_fla, world_models, world_serving, world_library, world_hub)
LIBRARIES = tuple(t for m in MODULES for t in trials(m))
TRIALS = (*world_tutorials.TRIALS, *LIBRARIES, *world_hub.TRIMUL)
SOURCES = (*REPOSITORIES, *world_tutorials.TUTORIALS.values())
