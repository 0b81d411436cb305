"""Best configurations: plans reuse the tile sizes that earlier tuning stored on disk."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from pypto.graph.codegen.tile_candidates import blocking_candidates, tile_candidates, variant_text
from pypto.graph.codegen.writer import KernelText
from pypto.graph.schedule.tiling import Program
from pypto.tuning.config import Config
from pypto.tuning.store import Winners

Choice = Callable[[Program, KernelText], KernelText]  # a kernel for another that computes the same
_LINE: Final = re.compile(r"  # [^\n]*")


def winners_of(program: Program, text: KernelText) -> Winners:
    """Return the tuning store of a kernel; its key ignores the user's line numbers and the kernel's name."""
    body = _LINE.sub("", text.source.partition(text.name)[2])
    fields: list[dict[str, int]] = [{}, *blocking_candidates(program)]
    configs = [Config({**tile, **field}) for tile in tile_candidates(program) for field in fields]
    return Winners(f"fused {text.form}", hashlib.sha256(body.encode()).hexdigest(), configs)


def key_of(text: KernelText) -> tuple[Any, ...]:
    """Return the key of a stored configuration: the types and shapes of the arguments."""
    return tuple(f"{a.node.type.dtype}[{', '.join(map(str, a.shape))}]" for a in text.arguments)


def choice_of(chosen: Mapping[str, Config], precision: str) -> Choice:
    """Return a function that replaces kernels by tuned kernels, by the name of the untuned kernel."""

    def choose(program: Program, text: KernelText) -> KernelText:
        config = chosen.get(text.name)
        return text if config is None else variant_text(program, config.kwargs, precision)

    return choose


def stored_choice(precision: str) -> Choice:
    """Return a function that replaces kernels by those that an earlier tuning stored."""
    known: dict[str, Config | None] = {}

    def choose(program: Program, text: KernelText) -> KernelText:
        if text.name not in known:
            known[text.name] = winners_of(program, text).find(key_of(text))
        config = known[text.name]
        return text if config is None else variant_text(program, config.kwargs, precision)

    return choose
