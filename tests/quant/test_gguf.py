"""GGUF files: blocks are read bit for bit, products take them as they are, and models compute what they say."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pypto import quant
from pypto.errors.quant import WrongCalibration

BYTES = 257
KINDS = ("Q4_0", "Q4_1", "Q8_0")
SIZES = {"width": 64, "hidden": 96, "heads": 4, "shared": 2, "blocks": 2}


def add_bytes(writer: Any) -> None:
    """A tokenizer of bytes without merges but one."""
    tokenizers = pytest.importorskip("tokenizers")
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list([*alphabet, "th"])
    writer.add_token_merges(["t h"])


def write(  # parts of a file
    path: Path,
    architecture: str = "llama",
    kind: str = "Q4_1",
    words: int = 50,
    keys: Mapping[str, Any] | None = None,
    tensors: Mapping[str, Any] | None = None,
    depth: int = SIZES["width"] // SIZES["heads"],
) -> Path:
    """A small model with random weights; with 257 words, the tokenizer of bytes.

    `keys` are further numbers and texts; `tensors` are further ones, or stand for others, and None leaves one out.
    """
    gguf = pytest.importorskip("gguf")
    rng = np.random.default_rng(0)
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(SIZES["blocks"])
    writer.add_head_count(SIZES["heads"])
    writer.add_head_count_kv(SIZES["shared"])
    writer.add_layer_norm_rms_eps(1e-5)
    width = SIZES["width"]
    hidden = SIZES["hidden"]
    rows, shared = depth * SIZES["heads"], depth * SIZES["shared"]
    shapes = {
        "attn_q": (rows, width), "attn_k": (shared, width), "attn_v": (shared, width), "attn_output": (width, rows),
        "ffn_gate": (hidden, width), "ffn_up": (hidden, width), "ffn_down": (width, hidden),
    }  # fmt: skip
    quantized = gguf.GGMLQuantizationType[kind]
    others = dict(tensors or {})
    add = {int: writer.add_uint32, float: writer.add_float32, str: writer.add_string, bool: writer.add_bool}
    for key, value in (keys or {}).items():
        add.get(type(value), writer.add_array)(key, value)
    for number in range(SIZES["blocks"]):
        for name, shape in shapes.items():
            weight = (rng.standard_normal(shape) / np.sqrt(shape[1])).astype(np.float32)
            data = gguf.quants.quantize(weight, quantized)
            writer.add_tensor(f"blk.{number}.{name}.weight", data, raw_dtype=quantized)
        for name in ("attn_norm", "ffn_norm"):
            others.setdefault(f"blk.{number}.{name}.weight", rng.random(width, np.float32) + 0.5)
    others.setdefault("token_embd.weight", (rng.standard_normal((words, width)) / 8).astype(np.float32))
    others.setdefault("output_norm.weight", np.ones(width, np.float32))
    for name, tensor in others.items():
        if tensor is not None:
            writer.add_tensor(name, tensor)
    if words == BYTES:
        add_bytes(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def tokens(windows: int = 6, length: int = 20) -> Any:
    return np.random.default_rng(1).integers(0, 50, (windows, length), dtype=np.int32)


@pytest.mark.parametrize("kind", KINDS)
def test_codes_give_the_reference_back(tmp_path: Path, kind: str) -> None:
    file = quant.read_gguf(write(tmp_path / "a.gguf", kind=kind))
    name = "blk.1.ffn_down.weight"
    weight = file.weight(name)
    assert file.kind(name) == kind
    assert weight.codes.shape == (64, 96)
    assert weight.scales.shape == (64, 3)
    np.testing.assert_array_equal(weight.dequantize(), file.array(name))
    assert len(np.unique(weight.codes)) > 12


@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("kind", KINDS)
def test_products_take_blocks_as_they_are(tmp_path: Path, kind: str, rows: int) -> None:
    file = quant.read_gguf(write(tmp_path / "a.gguf", kind=kind))
    name = "blk.0.ffn_down.weight"
    layer = quant.deploy({"down": file.weight(name)})["down"]
    x = np.random.default_rng(0).standard_normal((rows, 96)).astype(np.float32)
    exact = x.astype(np.float64) @ file.array(name).T.astype(np.float64)
    np.testing.assert_allclose(layer(x), exact, rtol=0, atol=1e-5 * np.abs(exact).max())
    assert layer.kind == ("W8A16" if kind == "Q8_0" else "W4A16")


def by_hand(file: quant.GGUF, ids: Any, frequencies: Any = None) -> float:
    """The perplexity of one window, in float64, token by token."""

    def array(name: str) -> Any:
        return file.array(name).astype(np.float64)

    def norm(x: Any, name: str) -> Any:
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * array(name)

    x = array("token_embd.weight")[ids]
    heads = SIZES["heads"]
    shared = SIZES["shared"]
    depth = file.array("blk.0.attn_q.weight").shape[0] // heads
    turns = 10000.0 ** (-np.arange(0, depth, 2) / depth) if frequencies is None else frequencies

    def rotated(t: Any) -> Any:
        """Pairs of neighbours as complex numbers."""
        z = t[..., 0::2] + 1j * t[..., 1::2]
        z = z * np.exp(1j * np.outer(np.arange(len(t)), turns))[:, None]
        return np.stack([z.real, z.imag], -1).reshape(t.shape)

    for number in range(SIZES["blocks"]):
        w = {part: array(f"blk.{number}.{part}.weight") for part in (
            "attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")}  # fmt: skip
        t = norm(x, f"blk.{number}.attn_norm.weight")
        q = rotated((t @ w["attn_q"].T).reshape(-1, heads, depth))
        k = rotated((t @ w["attn_k"].T).reshape(-1, shared, depth))
        v = (t @ w["attn_v"].T).reshape(-1, shared, depth)
        y = np.zeros_like(q)
        for i in range(len(ids)):
            for h in range(heads):
                g = h // (heads // shared)
                p = np.exp(k[: i + 1, g] @ q[i, h] / np.sqrt(depth))
                y[i, h] = p @ v[: i + 1, g] / p.sum()
        x = x + y.reshape(len(ids), -1) @ w["attn_output"].T
        t = norm(x, f"blk.{number}.ffn_norm.weight")
        gate = t @ w["ffn_gate"].T
        x = x + (gate / (1 + np.exp(-gate)) * (t @ w["ffn_up"].T)) @ w["ffn_down"].T
    logits = norm(x, "output_norm.weight") @ array("token_embd.weight").T
    lost = np.log(np.exp(logits).sum(-1))[:-1] - logits[np.arange(len(ids) - 1), ids[1:]]
    return float(np.exp(lost.mean()))


def test_perplexity_is_that_of_the_model(tmp_path: Path) -> None:
    model = quant.load_llama(write(tmp_path / "a.gguf"))
    ids = tokens()
    assert len(model) == 2
    assert [block.name for block in model] == ["0", "1"]
    each = [model.perplexity(ids[i : i + 1]) for i in range(len(ids))]
    np.testing.assert_allclose(each[0], by_hand(model.file, ids[0]), rtol=1e-4)
    np.testing.assert_allclose(model.perplexity(ids, batch=4), np.exp(np.log(each).mean()), rtol=1e-5)
    as_it_is = quant.deploy({
        f"{number}.{part}": model.file.weight(f"blk.{number}.{name}.weight")
        for number in range(2) for part, name in (("up", "ffn_up"), ("down", "ffn_down"), ("q", "attn_q"))
    })  # fmt: skip
    np.testing.assert_allclose(model.perplexity(ids, as_it_is), model.perplexity(ids), rtol=1e-4)


def test_a_model_of_a_file_is_calibrated(tmp_path: Path) -> None:
    """Its logits stay closer to those of float32 with eight bits than with four; weights are read block by block."""
    model = quant.load_llama(write(tmp_path / "a.gguf"))
    ids = tokens(16, 40)
    lost = {}
    for bits, config in {
        8: quant.Config(inputs=quant.int8("token"), algorithm=("smoothquant", "gptq")),
        4: quant.Config(quant.int4(group=32), algorithm="minmax"),
    }.items():
        with quant.calibrate(model, config) as run:
            run(model.embed(ids))
            layers = quant.deploy(run.convert())
        assert len(layers) == 14
        value = exact = model.embed(ids)
        for block in model:
            value, exact = block.run(value, layers), block.run(exact)
        lost[bits] = quant.relative_error(exact["x"], value["x"])
    assert 0 < 4 * lost[8] < lost[4] < 0.5


def test_an_int8_cache_is_close_to_the_cache_of_floats(tmp_path: Path) -> None:
    file = quant.read_gguf(write(tmp_path / "a.gguf"))
    ids = tokens(4, 30)
    ranges = quant.KeyRanges()
    exact = quant.Llama(file, ranges).perplexity(ids)
    assert set(ranges.largest) == {"0", "1"}
    found = quant.Llama(file, quant.Int8Cache.of(ranges)).perplexity(ids)
    assert exact != found
    np.testing.assert_allclose(found, exact, rtol=0.02)
    with pytest.raises(WrongCalibration, match="block 0 has no scales of keys"):
        quant.Llama(file, quant.Int8Cache({})).perplexity(ids)


def test_texts_become_tokens(tmp_path: Path) -> None:
    model = quant.load_llama(write(tmp_path / "a.gguf", words=BYTES))
    ids = model.windows("the 12 cats. The end", 5)
    assert ids.shape == (3, 5)
    assert model.tokenizer.decode(ids.ravel().tolist()) == "the 12 cats. The"  # "th" is one token
    with pytest.raises(WrongCalibration, match="a text of 1 tokens has no window of 5"):
        model.windows("th", 5)


def test_what_is_no_such_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    write(path)
    file = quant.read_gguf(path)
    with pytest.raises(WrongCalibration, match=r"a\.gguf has no tensor up"):
        file.array("up")
    with pytest.raises(WrongCalibration, match=r"tensor token_embd.weight of a\.gguf is F32"):
        file.weight("token_embd.weight")
    with pytest.raises(WrongCalibration, match="its tokenizer is not offered"):
        quant.load_llama(path).windows("a text")
    with pytest.raises(WrongCalibration, match="a model of the architecture bert, llama is offered"):
        quant.load_llama(write(tmp_path / "b.gguf", "bert"))
    for number, data in enumerate((b"", b"GGUF", b"text" * 100, path.read_bytes()[:3000])):
        broken = tmp_path / f"broken-{number}.gguf"
        broken.write_bytes(data)
        with pytest.raises(WrongCalibration, match=r"broken-\d.gguf cannot be read"):
            quant.read_gguf(broken)
