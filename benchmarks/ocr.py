"""``python -m benchmarks.ocr``: text that the convolution networks of PP-OCR read in float32 and in int8.

Pages are drawn, calibration pages with other sentences than those that are read. One network finds the lines of a page,
another one reads a line. The models are those of the package `rapidocr-onnxruntime`; `onnx` and `pillow` are needed.
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.onnx_network import Network
from pypto import quant

Array = np.ndarray[Any, Any]
Convolve = Callable[[str, Array], Array]
CALIBRATION: Final = (
    ("Pack my box with five dozen jugs", "Sphinx of black quartz, judge", "HELLO WORLD 2026, 47.11"),
    ("How vexingly quick daft zebras jump", "Total: 1,234.50 EUR (incl. 19 %)", "Call +49 30 901820 now!"),
)
READ: Final = (
    ("The quick brown fox jumps over", "the lazy dog 0123456789 times;", "Int8 convolutions read this."),
    ("Invoice No. 86-B of 24 May 1993", "From arrays to fused kernels", "Waltz, bad nymph, for quick jigs"),
)
SIZE: Final = 36  # of letters
LINE: Final = 72  # pixels from a line to the next
HIGH: Final = 48  # pixels of a line for the network that reads
THRESHOLD: Final = 0.3
CONFIG: Final = quant.Config(inputs=quant.int8("tensor"))


def page(lines: Sequence[str]) -> Array:
    """A page of text as grey values (height, width), whose sizes are multiples of 32."""
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("L", (736, -(-LINE * (len(lines) + 1) // 32) * 32), 255)
    for i, line in enumerate(lines):
        ImageDraw.Draw(image).text((24, 32 + LINE * i), line, font=ImageFont.load_default(SIZE), fill=0)
    return np.asarray(image, np.float32)


def normalised(grey: Array) -> Array:
    """Grey values as three channels between -1 and 1."""
    return np.ascontiguousarray(np.broadcast_to(grey / 127.5 - 1, (1, 3, *grey.shape)), np.float32)


def runs(there: Array, least: int) -> Iterator[tuple[int, int]]:
    """First and last of each run of true values that is long enough."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], there, [False]]).astype(np.int8)))
    yield from ((int(a), int(b)) for a, b in edges.reshape(-1, 2) if b - a >= least)


def lines_of(grey: Array, probability: Array) -> Iterator[Array]:
    """The lines of a page as images of one height, from what the first network says of each pixel."""
    from PIL import Image

    inside = probability > THRESHOLD
    for top, bottom in runs(inside.any(axis=1), 6):
        columns = np.flatnonzero(inside[top:bottom].any(axis=0))
        margin = (bottom - top) // 2  # the network finds the middle of letters
        left, right = columns[0] - 2 * margin, columns[-1] + 2 * margin
        crop = grey[max(0, top - margin) : bottom + margin, max(0, left) : right]
        width = -(-crop.shape[1] * HIGH // crop.shape[0] // 8) * 8
        resized = Image.fromarray(crop.astype(np.uint8)).resize((width, HIGH), Image.Resampling.BILINEAR)
        yield np.asarray(resized, np.float32)


@dataclass(frozen=True)
class Reader:
    """Two networks: one that finds lines, and one that reads them."""

    find: Network
    read: Network

    @staticmethod
    def load(folder: Path | None = None) -> Reader:
        """The networks of the installed package, or of a folder."""
        if folder is None:
            package = importlib.util.find_spec("rapidocr_onnxruntime")
            if package is None or package.origin is None:
                raise FileNotFoundError("the models of PP-OCR are not installed: pip install rapidocr-onnxruntime")
            folder = Path(package.origin).parent / "models"
        return Reader(*(Network.load(folder / f"ch_PP-OCRv4_{part}_infer.onnx") for part in ("det", "rec")))

    def text(self, grey: Array, find: Convolve, read: Convolve) -> list[str]:
        """The text of a page, line by line."""
        probability = self.find.run(normalised(grey), find)[0, 0]
        return [self.decoded(self.read.run(normalised(line), read)[0]) for line in lines_of(grey, probability)]

    def decoded(self, probabilities: Array) -> str:
        """The letters of a line: the likeliest at each place, without repetitions and blanks."""
        letters = ["", *self.read.metadata["character"].splitlines(), " "]
        places = probabilities.argmax(axis=1)
        changes = np.flatnonzero(np.diff(places, prepend=-1))
        return "".join(letters[places[i]] for i in changes).strip()


def functions(layers: dict[str, Any]) -> Convolve:
    """Convolutions by name."""
    return lambda name, x: layers[name](x)


def quantized(reader: Reader) -> tuple[dict[str, Any], dict[str, Any]]:
    """The convolutions of both networks in int8, calibrated on pages of their own."""
    find, read = (quant.calibrate_convolutions(part.convolutions(), CONFIG) for part in (reader.find, reader.read))
    for lines in CALIBRATION:
        reader.text(page(lines), find, read)
    return find.convert(), read.convert()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ocr", description=__doc__)
    parser.add_argument("--models", type=Path, metavar="FOLDER", help="where the ONNX files are")
    reader = Reader.load(parser.parse_args().models)
    plain = [{layer.name: layer for layer in part.convolutions()} for part in (reader.find, reader.read)]
    int8 = quantized(reader)
    for lines in READ:
        found = [reader.text(page(lines), *map(functions, layers)) for layers in (plain, int8)]
        for texts in zip(lines, *found, strict=True):
            print(" | ".join(texts))
    sizes = [sum(layer.weight.nbytes for part in plain for layer in part.values())]
    sizes.append(sum(layer.bytes for part in int8 for layer in part.values()))
    print(f"weights of convolutions: {sizes[0] / 1e6:.1f} MB in float32, {sizes[1] / 1e6:.1f} MB in int8")


if __name__ == "__main__":
    main()
