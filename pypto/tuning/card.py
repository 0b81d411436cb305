"""The HTML card of an autotuner in a notebook: the kernel, its tuned constants, the choices and the trials."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pypto.debug.cards import described, signature_of
from pypto.markup import Markup, card, folded, note, table, tag
from pypto.markup.colours import coloured
from pypto.tuning.config import name_of
from pypto.tuning.report import section_parts

if TYPE_CHECKING:
    from pypto.tuning.autotune import Autotuner


def autotuner_card(tuner: Autotuner) -> Markup:
    """Return the card of an autotuner as HTML."""
    keys = ", ".join(tuner.keys) or "()"
    text = f"{len(tuner.configs)} configurations; the fastest is found for each key ({keys}) and all dtypes of arrays"
    tried = [part for section in tuner.sections.values() for part in section_parts(section)]
    return card(tag("code", coloured(signature_of(tuner.base_fn))), described(tuner.base_fn), chosen(tuner),
                *tried, configurations(tuner), note=text)  # fmt: skip


def chosen(tuner: Autotuner) -> Markup:
    """Return the configuration of every known key."""
    if not tuner.cache:
        return note("Not tuned yet: the first launch does it.")
    rows = [(", ".join(map(str, key)), name_of(config)) for key, config in tuner.cache.items()]
    return table(("key", "chosen"), rows)


def configurations(tuner: Autotuner) -> Markup:
    return folded("configurations", tag("pre", "\n".join(name_of(config) for config in tuner.configs)))
