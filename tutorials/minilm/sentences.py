"""The sentences that the demo embeds."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence and the topic under which it stands in the file."""

    topic: str
    text: str


def load_sentences() -> tuple[Sentence, ...]:
    """All sentences of `sentences.txt`, in its order.

    Examples
    --------
    >>> load_sentences()[0].topic
    'cooking'
    """
    found, topic = [], ""
    for line in files("minilm").joinpath("sentences.txt").read_text("utf-8").splitlines():
        if line.startswith("# "):
            topic = line[2:]
        elif line:
            found.append(Sentence(topic, line))
    return tuple(found)
