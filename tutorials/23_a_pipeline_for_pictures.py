# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 23 · A pipeline for pictures, in which a broken one fails alone
#
# Files come in, classes go out, in batches. Among many files some are broken: cut off, of another format, one pixel
# wide. A broken picture must not stop the others, must not change their results, and must say what is wrong with it.
# With `pip install pypto-jit[tutorials]`, Pillow reads the files, of any format.
#
# ```text
#     files      a.png    b.png (cut off)   c.png    d.txt
#     read       pixels   error             pixels   error        each file alone
#     network    [a, c] in one batch                              one launch for all that are whole
#     outcome    class    error: …          class    error: …     in the order of the files
# ```

# %%
from __future__ import annotations

import io
import re
import time
from dataclasses import dataclass

import numpy as np

import pypto as pto
import pypto.library as lib

try:
    from PIL import Image
except ModuleNotFoundError:  # then pictures are PPM files, which a few lines read
    Image = None

SIDE = 32
CLASSES = ("plain", "rows", "columns", "checks", "rings")
MEAN, SPREAD = np.float32(0.5), np.float32(0.25)

# %% [markdown]
# ## Reading
#
# What can be wrong with a picture has a class of its own. Only that is caught later: a mistake in this program is no
# property of a picture, and should stop it.


# %%
class BrokenPicture(Exception):
    """The file is no picture that the network can take."""


def read(data):
    """Pixels (height, width, 3) from 0 to 255 of a file's bytes."""
    if Image is None:
        return read_ppm(data)
    try:
        with Image.open(io.BytesIO(data)) as picture:
            return np.asarray(picture.convert("RGB"))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        reason, _, _ = str(error).partition(" <")  # Pillow names an object in memory there
        raise BrokenPicture(f"it cannot be read: {reason}") from None


def read_ppm(data):
    """A PPM file: `P6`, width, height and 255, and three bytes for each pixel."""
    head = re.match(rb"P6\s+(\d{1,5})\s+(\d{1,5})\s+255\s", data)
    if head is None:
        raise BrokenPicture("it cannot be read: it does not begin as a PPM file does")
    (width, height), pixels = map(int, head.groups()), data[head.end() :]
    if len(pixels) != 3 * width * height:
        raise BrokenPicture(f"it cannot be read: {width} x {height} pixels are not as many as the file has")
    return np.frombuffer(pixels, np.uint8).reshape(height, width, 3)


def written(pixels):
    """The bytes of a file with a picture."""
    if Image is not None:
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "PNG")
        return file.getvalue()
    height, width, _ = pixels.shape
    return b"P6\n%d %d\n255\n" % (width, height) + pixels.tobytes()


# %% [markdown]
# ## Preparing
#
# The shorter side becomes `SIDE` pixels, and the middle is cut out. Making a picture smaller is an average: each new
# pixel has a triangle of weights over the old ones, so rows and columns are two small matrix products.


# %%
def weights(before, after):
    """Matrix (after, before) that makes `before` pixels to `after`; each row sums to 1."""
    scale = before / after
    width = max(scale, 1.0)
    centres = (np.arange(after) + 0.5) * scale - 0.5
    triangle = np.maximum(1 - np.abs(np.arange(before) - centres[:, None]) / width, 0)
    return (triangle / triangle.sum(1, keepdims=True)).astype(np.float32)


def prepared(pixels):
    """What the network takes of a picture: (3, SIDE, SIDE)."""
    height, width, _ = pixels.shape
    shorter = min(height, width)
    if shorter < 8:
        raise BrokenPicture(f"{width} x {height} pixels are too few to tell a pattern")
    rows, columns = (max(round(side * SIDE / shorter), SIDE) for side in (height, width))
    planes = np.moveaxis(pixels, 2, 0).astype(np.float32) / 255
    small = weights(height, rows) @ planes @ weights(width, columns).T
    top, left = (rows - SIDE) // 2, (columns - SIDE) // 2
    return (small[:, top : top + SIDE, left : left + SIDE] - MEAN) / SPREAD


# %% [markdown]
# ## The network
#
# Two blocks of convolution, normalisation and relu, each one operator of the library, and between them an average of
# neighbours. The filters are random. What they answer on average over the picture is enough to tell patterns apart, and
# a linear map of it, found by least squares, is the classifier.


# %%
class Network:
    def __init__(self, rng):
        self.blocks = [self.block(rng, 3, 24), self.block(rng, 24, 48)]
        self.head = np.zeros((97, len(CLASSES)), np.float32)

    @staticmethod
    def block(rng, inputs, outputs):
        weight = rng.standard_normal((3, 3, outputs, inputs), np.float32) / np.sqrt(9 * inputs, dtype=np.float32)
        return weight, np.ones(outputs, np.float32), rng.standard_normal(outputs, np.float32) * np.float32(0.1)

    def features(self, x):
        for number, (weight, gain, bias) in enumerate(self.blocks):
            if number:
                x = x.reshape(*x.shape[:2], x.shape[2] // 2, 2, x.shape[3] // 2, 2).mean((3, 5))
            x = lib.conv_bn_relu(x, weight, gain, bias)
        flat = x.reshape(*x.shape[:2], -1)
        return np.concatenate([flat.mean(2), flat.std(2), np.ones((len(x), 1), np.float32)], 1)

    def train(self, pictures, labels):
        found = self.features(pictures)
        wanted = np.eye(len(CLASSES), dtype=np.float32)[labels]
        self.head = np.linalg.solve(found.T @ found + 0.01 * np.eye(97), found.T @ wanted).astype(np.float32)

    def __call__(self, pictures):
        """Probabilities (pictures, classes)."""
        scores = np.exp(10 * (self.features(pictures) @ self.head))
        return scores / scores.sum(1, keepdims=True)


# %% [markdown]
# ## The pipeline
#
# `classify` gives one outcome for each file, in their order. Files are read one by one, since they fail one by one. All
# that are whole go through the network together: a batch is what makes it fast. The network is looked at as well: if a
# picture's probabilities are no numbers, then that is this picture's error.


# %%
@dataclass(frozen=True)
class Outcome:
    """What became of a file: its classes with their probabilities, the best first, or an error."""

    name: str
    classes: tuple[tuple[str, float], ...] = ()
    error: str = ""


def classify(network, files, batch=16, top=2, seconds=None):
    """Outcomes of files, given as pairs of a name and bytes; `seconds` collects the time of each stage."""
    outcomes = {}
    seconds = {} if seconds is None else seconds
    for start in range(0, len(files), batch):
        began, whole = time.perf_counter(), {}
        for number in range(start, min(start + batch, len(files))):
            name, data = files[number]
            try:
                whole[number] = prepared(read(data))
            except BrokenPicture as error:
                outcomes[number] = Outcome(name, error=str(error))
        reading = time.perf_counter()
        for number, row in zip(whole, network(np.stack(list(whole.values()))) if whole else (), strict=True):
            outcomes[number] = outcome(files[number][0], row, top)
        seconds.setdefault("read and prepare", []).append(reading - began)
        seconds.setdefault("network", []).append(time.perf_counter() - reading)
    return [outcomes[number] for number in range(len(files))]


def outcome(name, probabilities, top):
    if not np.isfinite(probabilities).all():
        return Outcome(name, error="the network's result has no numbers")
    best = np.argsort(-probabilities, kind="stable")[:top]
    return Outcome(name, tuple((CLASSES[n], float(probabilities[n])) for n in best))


# %% [markdown]
# ## Pictures
#
# Patterns of two colours, of any size, with noise.


# %%
def pattern(rng, kind):
    """A picture (height, width, 3) of a class."""
    height, width = rng.integers(40, 100, 2)
    y, x = np.mgrid[:height, :width] / rng.uniform(4, 6) * (min(height, width) / 48)
    y, x = y + rng.uniform(0, 6), x + rng.uniform(0, 6)
    if kind == "rings":
        wave = np.sin(1.5 * np.hypot(y - y.mean(), x - x.mean()))
    else:
        wave = {"plain": 0 * x, "rows": np.sin(1.5 * y), "columns": np.sin(1.5 * x),
                "checks": np.sin(1.5 * y) * np.sin(1.5 * x) * 2}[kind]  # fmt: skip
    share = (1 / (1 + np.exp(-4 * wave)))[..., None]
    dark, light = rng.uniform(0, 90, 3), rng.uniform(150, 255, 3)
    noisy = dark + share * (light - dark) + rng.normal(0, 8, (height, width, 3))
    return np.clip(noisy, 0, 255).astype(np.uint8)


def pictures_of(rng, count):
    labels = rng.integers(0, len(CLASSES), count)
    return [pattern(rng, CLASSES[n]) for n in labels], labels


rng = np.random.default_rng(0)
network = Network(rng)

if __name__ == "__main__":
    seen, labels = pictures_of(rng, 300)
    network.train(np.stack([prepared(p) for p in seen]), labels)
    held_back, answers = pictures_of(rng, 200)
    files = [(f"{CLASSES[n]}-{i}", written(p)) for i, (p, n) in enumerate(zip(held_back, answers, strict=True))]
    right = np.mean([o.classes[0][0] == o.name.partition("-")[0] for o in classify(network, files)])
    print(f"{right:.0%} of {len(files)} pictures that the network has not seen are right")
    assert right > 0.9

# %% [markdown]
# ## Broken ones
#
# Seven files: three are whole. The others are cut off, no picture, empty, and a line of pixels.

# %%
if __name__ == "__main__":
    (first, whole), (second, data), (third, other) = files[:3]
    broken = {
        "cut-off": whole[: len(whole) // 2],
        "text": b"no picture, only words",
        "empty": b"",
        "line": written(np.zeros((1, 500, 3), np.uint8)),
    }
    mixed = [(first, whole), *list(broken.items())[:2], (second, data), *list(broken.items())[2:], (third, other)]
    outcomes = classify(network, mixed, batch=4)
    for one in outcomes:
        said = one.error or ", ".join(f"{name} {share:.2f}" for name, share in one.classes)
        print(f"  {one.name:<12} {'error: ' if one.error else ''}{said}")

# %% [markdown]
# The check: every file has its outcome, at its place. Exactly the broken ones have an error. And the results of the
# others are what each gets alone, so nothing of a neighbour came in.

# %%
if __name__ == "__main__":
    assert [one.name for one in outcomes] == [name for name, _ in mixed]
    assert {one.name for one in outcomes if one.error} == set(broken)
    for one, file in zip(outcomes, mixed, strict=True):
        if not one.error:
            (alone,) = classify(network, [file])
            np.testing.assert_allclose([p for _, p in one.classes], [p for _, p in alone.classes], rtol=1e-4)
    print("broken pictures fail alone, and the others are as they are alone")

# %% [markdown]
# A batch in which all are broken runs no network, and a mistake in the program is no broken picture:

# %%
if __name__ == "__main__":
    assert all(one.error for one in classify(network, list(broken.items()), batch=2))

    def mistaken(pictures):
        return pictures.means()  # there is no such method

    try:
        classify(mistaken, mixed)
    except AttributeError as error:
        print("a mistake stops the program:", error)

# %% [markdown]
# A picture may be whole, and its result no number, if the weights overflow for it. Here one picture of a batch has such
# values, as a faulty filter of colours may give; the others of the batch do not notice.

# %%
if __name__ == "__main__":
    batch = np.stack([prepared(p) for p in held_back[:3]])
    batch[1, 0, 5, 5] = np.inf
    with np.errstate(invalid="ignore"):
        found = [outcome(str(n), row, 1) for n, row in enumerate(network(batch))]
    print([one.error or one.classes[0][0] for one in found])
    assert [bool(one.error) for one in found] == [False, True, False]

# %% [markdown]
# ## Time
#
# A rate is pictures over the time of *all* that was done for them. A network that takes a millisecond makes no thousand
# pictures a second if reading takes five. So each stage is measured, and the sum of both is what counts.

# %%
if __name__ == "__main__":
    classify(network, files[:16])
    for size in (1, 16, 64):
        seconds = {}
        classify(network, files, batch=size, seconds=seconds)
        total = sum(sum(each) for each in seconds.values())
        shares = ", ".join(f"{name} {sum(each) / total:.0%}" for name, each in seconds.items())
        print(f"batches of {size:>2}: {len(files) / total:5.0f} pictures/s, of which {shares}")
    print(f"threads of a launch: {pto.get_num_threads()}")

# %% [markdown]
# ## Exercise
#
# 1. Read the files in a pool of threads while the network has the batch before. Which of the two stages limits now?
# 2. Let a file name a picture on disk. Which error does a missing file raise, and where does it become an `Outcome`?
# 3. Give each file a limit of time for reading, so that a slow disk is an error of its picture.
