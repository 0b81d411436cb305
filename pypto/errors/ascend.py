"""Diagnostics of what Ascend chips cannot do."""

from __future__ import annotations

from pypto.errors.base import Diagnostic


class NotOnAscend(Diagnostic, TypeError):
    code = "E501"
    template = "{op} of {dtype} does not run on Ascend: {reason}"
    hint = "{way}"


class NoRoomOnAscend(Diagnostic, MemoryError):
    code = "E502"
    template = "the tiles that are in use here need {needed:,} bytes of {space}, and {chip} has {available:,}"
    hint = (
        "make the tiles smaller: blocks of at most {percent} % of these sizes fit; "
        "{largest} takes most, {bytes:,} bytes"
    )


class NoForm(Diagnostic, TypeError):
    code = "E503"
    template = "{what} {problem} on Ascend"
    hint = "{way}"
