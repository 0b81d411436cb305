"""Shows the derived backward pass of a kernel as HTML in a notebook's cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pypto.debug.cards import signature_of
from pypto.markup import Markup, card, folded, join, note, tag
from pypto.markup.colours import coloured

if TYPE_CHECKING:
    from pypto.gradients.kernel import AdjointKernel

_NOT_YET = "Nothing is derived yet: the first launch does it, or `derive(grid, arguments…)`."


class ShownAdjoint:
    """The display of an adjoint kernel in a notebook."""

    def _repr_html_(self: Any) -> str:
        return adjoint_card(self, self._last)


def adjoint_card(adjoint: AdjointKernel, sources: Sequence[str]) -> Markup:
    """Shows the kernel, the arrays by which it is differentiated, and the kernels that the last launch ran."""
    kernel, wrt = adjoint.kernel, adjoint.wrt
    gradients = ", ".join(f"d_{name}" for name in wrt)
    given = f"back[grid](arguments…, gradients of what the kernel writes, {gradients})"
    state = f"{len(sources)} derived kernel{'' if len(sources) == 1 else 's'} in the last launch"
    if adjoint.by_hand is not None:
        state = f"the last launch ran a backward pass by hand: {adjoint.by_hand}"
    text = join((coloured(line) for line in "\n\n".join(sources).splitlines()), "\n")
    parts = [
        tag("div", tag("code", coloured(signature_of(kernel.function)))),
        note(f"launched as {given}"),
        note(state if sources or adjoint.by_hand else _NOT_YET),
        *([folded("source", tag("pre", text))] if sources else []),
    ]
    return card(f"adjoint of {kernel.signature.kernel} by {', '.join(wrt)}", *parts)
