"""The text of a launch list: its arrays, then its launches, one a line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pypto.runtime.arena import ArrayRef, Buffer, ScalarRef

if TYPE_CHECKING:
    from pypto.runtime.launches import LaunchList, LaunchStep


def lines(launches: LaunchList) -> Iterator[str]:
    """The text of the list: its arrays, then its launches."""
    names = {key: key if isinstance(key, str) else f"%{n}" for n, key in enumerate(dict.fromkeys(launches.keys))}
    for word, buffers in (("input", launches.inputs), ("result", launches.results)):
        for buffer in buffers:
            yield f"{word} {names[buffer.key]}: {buffer_text(buffer)}"
    yield f"arena {launches.arena.nbytes} bytes on {getattr(launches.memory, 'name', launches.memory)}"
    for slot in launches.arena.slots:
        zero = ", zeroed" if slot.is_zeroed else ""
        where = f"at {slot.offset}, steps {slot.first}-{slot.last}{zero}"
        yield f"  {names[slot.buffer.key]}: {buffer_text(slot.buffer)} {where}"
    for key in launches.constants:
        yield f"constant {names[key]}"
    for key, owner in launches.aliases.items():
        yield f"alias {names[key]} = {names[owner]}"
    for key in launches.scalars:
        yield f"scalar {names[key]}"
    for key in launches.zeroed:
        yield f"zero {names[key]}"
    for step in launches.steps:
        yield step_text(step, names)


def buffer_text(buffer: Buffer) -> str:
    return f"{buffer.dtype}[{', '.join(map(str, buffer.shape))}]"


def step_text(step: LaunchStep, names: Mapping[Any, str]) -> str:
    """A step as a line."""
    if step.kernel is None:
        return f"host {getattr(step.host, '__name__', step.host)}"
    given = ", ".join(f"{name}={argument_text(x, names)}" for name, x in step.arguments.items())
    wave = f"overlap {step.wave}: " if step.wave > 1 else ""
    host = "host, then " if step.host is not None else ""
    return f"{wave}{host}{step.kernel.signature.kernel}[{', '.join(map(str, step.grid))}]({given})"


def argument_text(x: Any, names: Mapping[Any, str]) -> str:
    """An argument of a launch."""
    if isinstance(x, ScalarRef):
        return names[x.key]
    if isinstance(x, ArrayRef):
        shape = "" if x.shape is None else f"[{', '.join(map(str, x.shape))}]"
        return f"{names[x.key]}{''.join(f'.{view}' for view in x.views)}{shape}"
    sizes = getattr(x, "shape", None)
    return str(x) if sizes is None else f"{x.dtype}[{', '.join(map(str, sizes))}]"
