"""Layout rules of the verifier: which layouts a memory of a chip holds, and which an instruction takes."""

from __future__ import annotations

from collections.abc import Iterator

from pypto.backends.ascend.blockir.effects import row_of, views
from pypto.backends.ascend.blockir.ir import Buffer, Instr, Record
from pypto.backends.ascend.target import PLAIN, AscendTarget

STRIP = 16  # rows


def unkept(buffer: Buffer, target: AscendTarget) -> Iterator[str]:
    """The layout of a buffer is one of its memory's."""
    kept = target.memories[buffer.space].layouts
    if buffer.layout not in kept:
        has = f"{buffer.space} of {target.name} has {' or '.join(kept)}"
        yield f"the buffer {buffer.name} is {buffer.layout}, and {has}"


def misplaced(instr: Instr, kinds: tuple[str, ...]) -> Iterator[str]:
    """The memories and layouts of operands are ones that the instruction takes."""
    row, found = row_of(instr), " ".join(f"{view.space}.{view.layout}" for view in views(instr))
    ways = row.places[row.forms.index(" ".join(kinds))].split(" | ") if row.places else [""]
    if ways == [""] and any(view.layout != PLAIN for view in views(instr)):
        yield f"{instr.name} takes {PLAIN}, not {found}"
    elif ways != [""] and found not in ways:
        yield f"{instr.name} takes {' or '.join(ways)}, not {found}"


def of_other_chips(instr: Instr, kinds: tuple[str, ...], target: AscendTarget) -> Iterator[str]:
    """Instructions and fields that the chip has."""
    record = next((x for x in instr.args if isinstance(x, Record)), None)
    if record is None:
        return
    if "Nd2NzParams" in kinds and views(instr)[0].layout == "ZZ" and record.fields[5] != STRIP:
        yield f"DataCopy: rows become ZZ in strips of {STRIP}, not of {record.fields[5]}"
    if not target.loads_panels:
        if "LoadData2DParamsV2" in kinds:
            yield f"{instr.name}: {target.name} has no LoadData2DParamsV2"
        return
    if "LoadData2DParams" in kinds and (record.fields[3] != 0 or record.fields[4] is not False):
        yield f"{instr.name}: on {target.name} dstGap and ifTranspose are of LoadData2DParamsV2"
    if instr.name == "InitConstValue" and views(instr)[0].space != "L1":
        yield f"InitConstValue: {target.name} fills L1 only"
    if instr.name == "Mmad" and record.fields[6] not in (0, False):
        yield f"Mmad: {target.name} has no kDirectionAlign"
