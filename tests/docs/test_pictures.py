"""Pictures on pages: all are there and say what they show, drawings are as plans draw them, and PNG files are small."""

from __future__ import annotations

import struct
import xml.etree.ElementTree as ET
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pypto as pto
from docs import pictures, png, site
from tests.browser import needs_browser

PAGES = sorted((site.ROOT / "docs").glob("*.md"))
FILES = sorted(pictures.FOLDER.iterdir())
MOST_BYTES = 120_000
Pixels = np.ndarray[Any, np.dtype[np.uint8]]


def shown(page: Path) -> list[tuple[str, Path]]:
    return [(text, page.parent / file) for text, file in site.images(page.read_text(encoding="utf-8"))]


def test_pictures_of_a_text() -> None:
    text = "![two bars](a.svg) `![no](b.svg)` [link](c.svg)\n```text\n![no](d.svg)\n```\n![](e.png)"
    assert site.images(text) == [("two bars", "a.svg"), ("", "e.png")]


@pytest.mark.parametrize("page", [p for p in PAGES if shown(p)], ids=lambda p: p.stem)
def test_a_picture_on_a_page_is_there_and_says_what_it_shows(page: Path) -> None:
    for text, file in shown(page):
        assert file.resolve() in FILES, f"{page.name} shows {file.name}, which is not there"
        assert len(text.split()) >= 3, f"{file.name} has no words for those who do not see it"


def test_every_picture_is_on_a_page() -> None:
    named = {file.resolve() for page in PAGES for _, file in shown(page)}
    assert [file.name for file in FILES if file not in named] == []
    assert {"arrays", "notebooks", "profiling"} <= {page.stem for page in PAGES if shown(page)}


@pytest.mark.parametrize("file", FILES, ids=lambda p: p.name)
def test_a_picture_is_not_empty(file: Path) -> None:
    body = file.read_bytes()
    assert len(body) < MOST_BYTES
    if file.suffix == ".svg":
        assert len(list(ET.fromstring(body).iter())) > 10
        return
    width, height = png.size_of(body)
    assert len(np.unique(indices(body))) > 10, "text is drawn in many shades"
    assert width > 500
    assert height > 200


def test_drawings_are_what_plans_draw() -> None:
    drawn = pictures.drawn()
    assert {name: (pictures.FOLDER / name).read_text(encoding="utf-8") for name in drawn} == drawn, "run `make docs`"


def test_drawings_leave_threads_as_they_were() -> None:
    before = pto.get_num_threads()
    with pictures.program("arrays.md", "network.py") as page:
        assert pto.get_num_threads() == pictures.THREADS
        assert page.network.plan(page.images, page.inner, page.outer).arena_bytes > 0
    assert pto.get_num_threads() == before


@pytest.mark.parametrize("channels", [3, 4])
def test_pixels_of_a_png_with_every_filter(channels: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (10, 7, channels), np.uint8)
    assert np.array_equal(png.unpacked(filtered(pixels)), pixels[..., :3])


def test_a_packed_png_has_the_colours_that_most_pixels_have() -> None:
    pixels = np.full((20, 30, 3), 252, np.uint8)
    pixels[5:10, 3:9] = (116, 192, 252)
    body = png.packed(filtered(pixels), 12)
    assert png.size_of(body) == (30, 12)
    assert body[body.index(b"PLTE") + 4 :][:6] == bytes((252, 252, 252, 116, 192, 252))
    assert np.array_equal(indices(body) == 1, (pixels != 252).any(2)[:12])


@pytest.mark.slow
@needs_browser
def test_a_card_is_taken_whole() -> None:
    body = pictures.photographed(pictures.plan_card(), pictures.NARROW)
    there = (pictures.FOLDER / "plan-card.png").read_bytes()
    assert png.size_of(body)[0] == png.size_of(there)[0] == pictures.NARROW * pictures.SCALE
    assert abs(png.size_of(body)[1] - png.size_of(there)[1]) < 60, "other fonts make other lines"
    assert len(body) < MOST_BYTES


def indices(body: bytes) -> Pixels:
    """The pixels of a packed picture as numbers of colours."""
    width, height = png.size_of(body)
    at = body.index(b"IDAT")
    rows = np.frombuffer(zlib.decompress(body[at + 4 :]), np.uint8).reshape(height, width + 1)
    return rows[:, 1:]


def filtered(pixels: Pixels) -> bytes:
    """A PNG of pixels whose rows have the five filters in turn."""
    height, width, channels = pixels.shape
    wide = np.zeros((height + 1, width + 1, channels), np.int64)
    wide[1:, 1:] = pixels
    now, left, up, corner = wide[1:, 1:], wide[1:, :-1], wide[:-1, 1:], wide[:-1, :-1]
    about = left + up - corner
    gaps = np.abs(np.stack([about - left, about - up, about - corner]))
    paeth = np.take_along_axis(np.stack([left, up, corner]), gaps.argmin(0)[None], 0)[0]
    guesses = np.stack([np.zeros_like(now), left, up, (left + up) // 2, paeth])
    kinds = np.arange(height) % 5
    lines = ((now - guesses[kinds, np.arange(height)]) % 256).astype(np.uint8).reshape(height, -1)
    data = zlib.compress(np.concatenate([kinds.astype(np.uint8)[:, None], lines], 1).tobytes())
    head = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 6, 0, 0, 0)
    parts = (b"IHDR", head), (b"IDAT", data), (b"IEND", b"")
    return png.SIGNATURE + b"".join(png.chunk(kind, body) for kind, body in parts)
