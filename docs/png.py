"""Makes PNG pictures of pages small: they have few colours, so each pixel becomes an index into a palette."""

from __future__ import annotations

import struct
import zlib
from typing import Any, Final

import numpy as np

SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
COLOURS: Final = 256
STEP: Final = 4  # between values of a channel; a smaller difference is not seen
CHANNELS: Final = {2: 3, 6: 4}  # by the type of colour: RGB, RGBA


def size_of(png: bytes) -> tuple[int, int]:
    """Width and height of a picture in pixels."""
    width, height = struct.unpack_from(">II", png, len(SIGNATURE) + 8)
    return int(width), int(height)


def packed(png: bytes, height: int) -> bytes:
    """The upper rows of a picture with at most 256 colours: those that most of its pixels have."""
    pixels = unpacked(png)[:height]
    height, width, _ = pixels.shape
    near = np.minimum((pixels.astype(np.uint32) + STEP // 2) // STEP * STEP, 255)
    codes = near[..., 0] << 16 | near[..., 1] << 8 | near[..., 2]
    colours, index, counts = np.unique(codes, return_inverse=True, return_counts=True)
    kept = np.argsort(-counts, kind="stable")[:COLOURS]
    channels = np.stack([colours >> 16, colours >> 8 & 255, colours & 255], 1).astype(np.int64)
    palette = channels[kept]
    nearest = ((channels[:, None] - palette[None]) ** 2).sum(2).argmin(1).astype(np.uint8)
    rows = np.zeros((height, width + 1), np.uint8)  # the first byte of a row says that it has no filter
    rows[:, 1:] = nearest[index.reshape(height, width)]
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    data = zlib.compress(rows.tobytes(), 9)
    parts = (b"IHDR", head), (b"PLTE", palette.astype(np.uint8).tobytes()), (b"IDAT", data), (b"IEND", b"")
    return SIGNATURE + b"".join(chunk(kind, body) for kind, body in parts)


def chunk(kind: bytes, body: bytes) -> bytes:
    """A chunk of a file: its length, kind, data and check sum."""
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def unpacked(png: bytes) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The pixels of a picture with 8 bits of red, green and blue: rows, columns, three channels.

    Raises
    ------
    ValueError
        For another kind of picture.
    """
    parts, at = list[bytes](), len(SIGNATURE)
    while at < len(png):
        (length,) = struct.unpack_from(">I", png, at)
        parts += [png[at + 8 : at + 8 + length]] if png[at + 4 : at + 8] == b"IDAT" else []
        at += length + 12
    width, height = size_of(png)
    depth, colour, _, _, interlaced = png[24:29]
    if depth != 8 or colour not in CHANNELS or interlaced:
        raise ValueError(f"a PNG of type {colour} with {depth} bits is not RGB with 8 bits")
    channels = CHANNELS[colour]
    lines = np.frombuffer(zlib.decompress(b"".join(parts)), np.uint8).reshape(height, 1 + width * channels)
    found, above = np.empty((height, width * channels), np.uint8), bytes(width * channels)
    for number, line in enumerate(lines):
        above = unfiltered(line[0], line[1:].tobytes(), above, channels)
        found[number] = np.frombuffer(above, np.uint8)
    return found.reshape(height, width, channels)[..., :3]


def unfiltered(kind: int, line: bytes, above: bytes, channels: int) -> bytes:
    """A row of bytes from the differences that one of the five filters of PNG made."""
    if kind == 0:
        return line
    if kind == 2:
        return (np.frombuffer(line, np.uint8) + np.frombuffer(above, np.uint8)).tobytes()
    found = bytearray(line)
    for at, up in enumerate(above):
        left, corner = (found[at - channels], above[at - channels]) if at >= channels else (0, 0)
        guess = left if kind == 1 else (left + up) // 2 if kind == 3 else paeth(left, up, corner)
        found[at] = (found[at] + guess) & 255
    return bytes(found)


def paeth(left: int, up: int, corner: int) -> int:
    """Which of three neighbours is nearest to their plane."""
    about = left + up - corner
    return min((left, up, corner), key=lambda value: abs(about - value))
