"""Models of GGUF files: every key and tensor is read or refused, and a text ends where the file says it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pypto import quant
from pypto.errors.quant import NoSuchLayer, NotFinite, NotRead, WrongCalibration
from pypto.quant.models.llama_layer import fused_sequences
from tests.quant.counting import check_observed, compiled
from tests.quant.test_gguf import BYTES, SIZES, by_hand, tokens, write

DEPTH = SIZES["width"] // SIZES["heads"]
BASE = 10000.0 ** (-np.arange(0, DEPTH, 2) / DEPTH)
FACTORS = np.linspace(1, 8, DEPTH // 2, dtype=np.float32)
SCALED: dict[str, tuple[dict[str, Any], dict[str, Any], Any]] = {
    "factors of the file": ({}, {"rope_freqs.weight": FACTORS}, BASE / FACTORS),
    "linear": ({"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}, {}, BASE / 4),
    "linear by its old key": ({"llama.rope.scale_linear": 4.0}, {}, BASE / 4),
    "none": ({"llama.rope.scaling.type": "none", "llama.rope.scaling.factor": 4.0}, {}, BASE),
    "both": ({"llama.rope.scaling.factor": 2.0}, {"rope_freqs.weight": FACTORS}, BASE / FACTORS / 2),
    "another base": ({"llama.rope.freq_base": 500.0}, {}, 500.0 ** (-np.arange(0, DEPTH, 2) / DEPTH)),
}
NEUTRAL = {
    "llama.expert_count": 0, "llama.attention.sliding_window": 0, "llama.logit_scale": 1.0, "llama.vocab_size": 50,
    "llama.attention.key_length": DEPTH, "llama.embedding_length": 64, "llama.rope.dimension_count": DEPTH,
    "general.name": "small", "general.type": "model", "quantize.imatrix.file": "a.dat",
}  # fmt: skip


@pytest.mark.parametrize("name", SCALED)
def test_rotary_positions_are_scaled(name: str, tmp_path: Path) -> None:
    """In float64 by hand, and in a decoder with a cache."""
    keys, tensors, frequencies = SCALED[name]
    model = quant.load_llama(write(tmp_path / "a.gguf", keys=keys, tensors=tensors))
    ids = tokens()[:1]
    found = model.perplexity(ids)
    np.testing.assert_allclose(found, by_hand(model.file, ids[0], frequencies), rtol=1e-4)
    assert (abs(found - by_hand(model.file, ids[0])) > 1e-3 * found) == (name != "none")
    decoder = quant.Decoder(model)
    lost = 0.0
    cache = decoder.cache(20)
    logits = decoder.prefill(ids[0, :1], cache).copy()
    for token in ids[0, 1:]:
        lost += math.log(np.exp(logits.astype(np.float64)).sum()) - float(logits[token])
        logits = decoder.step(token, cache).copy()
    np.testing.assert_allclose(math.exp(lost / 19), found, rtol=1e-4)


def test_heads_have_a_depth_of_their_own(tmp_path: Path) -> None:
    keys = {"llama.attention.key_length": 24, "llama.attention.value_length": 24}
    model = quant.load_llama(write(tmp_path / "a.gguf", keys=keys, depth=24))
    ids = tokens()[:1]
    np.testing.assert_allclose(model.perplexity(ids), by_hand(model.file, ids[0]), rtol=1e-4)
    decoder = quant.Decoder(model)
    whole, single = decoder.cache(20), decoder.cache(20)
    at_once = decoder.prefill(ids[0], whole).copy()
    for token in ids[0]:
        by_steps = decoder.step(token, single)
    np.testing.assert_allclose(at_once, by_steps, rtol=1e-4, atol=1e-5)


def test_windows_of_other_lengths_compile_nothing(tmp_path: Path) -> None:
    model = quant.load_llama(write(tmp_path / "a.gguf"))
    ids = tokens()
    model.perplexity(ids)
    plans, made = len(fused_sequences.versions), compiled(fused_sequences)
    for length in (19, 7, 2):
        found = model.perplexity(ids[:1, :length])
        np.testing.assert_allclose(found, by_hand(model.file, ids[0, :length]), rtol=1e-4)
    assert (len(fused_sequences.versions), compiled(fused_sequences)) == (plans, made)


def test_a_plan_observes_the_inputs_of_linear_layers(tmp_path: Path) -> None:
    model = quant.load_llama(write(tmp_path / "a.gguf"))
    check_observed(model[1], model.embed(tokens()))


def test_keys_that_change_nothing(tmp_path: Path) -> None:
    plain = quant.load_llama(write(tmp_path / "a.gguf"))
    said = quant.load_llama(write(tmp_path / "b.gguf", keys=NEUTRAL))
    assert said.perplexity(tokens()) == plain.perplexity(tokens())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("llama.expert_count", 8), ("llama.attention.sliding_window", 4096), ("llama.logit_scale", 16.0),
        ("llama.embedding_scale", 12.0), ("llama.residual_scale", 0.25), ("llama.attention.scale", 0.5),
        ("llama.rope.scaling.attn_factor", 1.25), ("llama.some_key", 1), ("adapter.type", "lora"), ("split.count", 2),
        ("general.type", "adapter"), ("llama.attention.causal", False), ("vendor.note", "a"),
    ],
)  # fmt: skip
def test_a_key_that_is_not_read_is_refused(key: str, value: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "a.gguf", keys={key: value})
    with pytest.raises(NotRead, match=rf"a\.gguf has the key {key} = {value}, which is not read"):
        quant.load_llama(path)
    with pytest.raises(NotRead):
        quant.Llama(quant.read_gguf(path))
    assert len(quant.load_llama(path, ignore=[key.partition(".")[0] + ".*"])) == SIZES["blocks"]


@pytest.mark.parametrize(
    "name",
    [
        "blk.0.attn_q.bias", "blk.1.attn_output.bias", "blk.0.attn_q_norm.weight", "blk.0.post_attention_norm.weight",
        "blk.0.ffn_gate_exps.weight", "blk.2.attn_q.weight", "output.bias", "position_embd.weight",
    ],
)  # fmt: skip
def test_a_tensor_that_is_not_read_is_refused(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / "a.gguf", tensors={name: np.ones(64, np.float32)})
    with pytest.raises(NotRead, match=rf"has the tensor {name}, which is not read"):
        quant.load_llama(path)
    assert len(quant.load_llama(path, ignore=["llama.*", name])) == SIZES["blocks"]


@pytest.mark.parametrize(
    ("keys", "tensors", "text"),
    [
        ({"llama.rope.scaling.type": "yarn"}, {}, r"its llama\.rope\.scaling\.type is yarn, and none and linear"),
        ({"llama.rope.dimension_count": 8}, {}, r"its llama\.rope\.dimension_count is 8, and 16 is offered"),
        ({"llama.vocab_size": 49}, {}, r"its llama\.vocab_size is 49, and 50 is offered"),
        ({"llama.attention.value_length": 8}, {}, r"value_length is 8, and 16 is offered"),
        ({"llama.attention.key_length": 8}, {}, r"tensor blk\.0\.attn_q\.weight has the shape \(64, 64\), expected"),
        ({"llama.feed_forward_length": [96, 96]}, {}, r"feed_forward_length is \[96, 96\], expected a number above 0"),
        ({"llama.rope.freq_base": math.nan}, {}, "freq_base is nan, expected a finite number"),
        ({}, {"rope_freqs.weight": np.zeros(8, np.float32)}, "has not 8 factors above 0"),
        ({}, {"rope_freqs.weight": np.ones(4, np.float32)}, "has not 8 factors above 0"),
        ({}, {"output_norm.weight": None}, r"it has no tensor output_norm\.weight"),
        ({}, {"blk.1.ffn_norm.weight": np.ones(32, np.float32)}, r"ffn_norm\.weight has the shape \(32,\), expected"),
        ({}, {"token_embd.weight": np.ones((50, 32), np.float32)}, r"attn_q\.weight has the shape"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(
    keys: dict[str, Any], tensors: dict[str, Any], text: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "a.gguf", keys=keys, tensors=tensors)
    with pytest.raises(WrongCalibration, match=text):
        quant.load_llama(path)


@pytest.mark.parametrize("name", ["token_embd.weight", "output_norm.weight", "blk.1.attn_norm.weight", "output.weight"])
def test_weights_that_are_not_finite(name: str, tmp_path: Path) -> None:
    """No perplexity is NaN, and no token is made of NaN."""
    shape = (50, 64) if name in ("token_embd.weight", "output.weight") else (64,)
    tensor = np.ones(shape, np.float32)
    tensor[(7, *(0,) * (len(shape) - 1))] = np.nan
    model = quant.load_llama(write(tmp_path / "a.gguf", tensors={name: tensor}))
    with pytest.raises(NotFinite, match=rf"layer {name}: its tensor has NaN or infinity"):
        model.perplexity(np.full((1, 4), 7))
    with pytest.raises(NotFinite, match=rf"layer ({name}|head): its (tensor|weight) has NaN"):
        quant.Decoder(model).generate([7], 2)


def test_sums_that_overflow(tmp_path: Path) -> None:
    model = quant.load_llama(write(tmp_path / "a.gguf", tensors={"output.weight": np.full((50, 64), 3e38, np.float32)}))
    with np.errstate(over="ignore", invalid="ignore"):
        with pytest.raises(NotFinite, match="layer head: its output has NaN or infinity"):
            model.perplexity(tokens())
        with pytest.raises(NotFinite, match="layer head: its output has NaN or infinity"):
            quant.Decoder(model).generate([7], 2)


def test_sequences_have_an_end(tmp_path: Path) -> None:
    """The context of a file is a bound, unless a longer one is asked for."""
    path = write(tmp_path / "a.gguf", keys={"llama.context_length": 16})
    model = quant.load_llama(path)
    decoder = quant.Decoder(model)
    text = "17 tokens are longer than the context of 16 that the model was trained for"
    for beyond in (
        lambda: model.perplexity(tokens(2, 17)), lambda: model.embed(tokens(2, 17)), lambda: decoder.cache(17),
        lambda: decoder.generate([1] * 10, 7), lambda: decoder.stream([1] * 10, 7),
    ):  # fmt: skip
        with pytest.raises(WrongCalibration, match=text):
            beyond()
    assert decoder.cache().tokens == 16
    assert len(decoder.generate([1] * 10, 6)) == 6
    longer = quant.load_llama(path, context=40)
    assert longer.perplexity(tokens(2, 17)) > 1
    assert quant.Decoder(longer).cache().tokens == 40


def test_prompts_are_one_sequence(tmp_path: Path) -> None:
    model = quant.load_llama(write(tmp_path / "a.gguf"))
    decoder = quant.Decoder(model)
    for made in (decoder.generate, lambda ids: decoder.prefill(ids, decoder.cache(20))):
        with pytest.raises(WrongCalibration, match=r"a prompt has the shape \(2, 3\)"):
            made([[1, 2, 3], [4, 5, 6]])
        with pytest.raises(WrongCalibration, match="tokens are float64"):
            made([1.5, 2])
    for options, text in (({"temperature": -1}, "temperature is -1"), ({"top": -3}, "`top` is -3")):
        with pytest.raises(WrongCalibration, match=text):
            decoder.generate([1], 2, **options)
    for ids in (np.zeros((0, 4), int), np.zeros((2, 1), int), np.zeros(4, int)):
        with pytest.raises(WrongCalibration, match="have no perplexity"):
            model.perplexity(ids)
    with pytest.raises(NoSuchLayer, match=r"no layer 0\.qq; did you mean 0\.q"):
        model.perplexity(tokens(), {"0.qq": lambda x: x})


def test_the_layer_of_logits_can_be_another(tmp_path: Path) -> None:
    model = quant.load_llama(write(tmp_path / "a.gguf"))
    head = quant.QuantizedLayer("head", quant.quantize(model.head, scheme=quant.int4(group=16)))
    exact = model.perplexity(tokens())
    found = model.perplexity(tokens(), {"head": head})
    assert found != exact
    np.testing.assert_allclose(found, exact, rtol=0.1)


def test_a_text_ends_at_any_of_its_end_tokens(tmp_path: Path) -> None:
    path = write(tmp_path / "a.gguf")
    free = quant.Decoder(quant.load_llama(path)).generate([3, 14], 12)
    stop = free[3]
    assert quant.Decoder(quant.load_llama(path)).generate([3, 14], 12, stop=[stop]) == free[: free.index(stop)]
    with pytest.raises(WrongCalibration, match="there is token 50"):
        quant.Decoder(quant.load_llama(path)).generate([3, 14], 12, stop=[50])
    for number, key in enumerate(("eos", "eot", "eom")):
        model = quant.load_llama(write(tmp_path / f"b{number}.gguf", keys={f"tokenizer.ggml.{key}_token_id": stop}))
        assert model.ends == {stop}
        assert quant.Decoder(model).generate([3, 14], 12) == free[: free.index(stop)]


def bytes_with(path: Path, **keys: Any) -> quant.Llama:
    """A model with the tokenizer of bytes, whose last token, `th`, and first one have other types."""
    types = [1] * BYTES
    types[256], types[0] = keys.pop("last", 1), keys.pop("first", 1)
    said = {"tokenizer.ggml.token_type": types} | {f"tokenizer.ggml.{key}": value for key, value in keys.items()}
    return quant.load_llama(write(path, words=BYTES, keys=said))


def test_tokens_of_a_dialogue_are_one_each(tmp_path: Path) -> None:
    """Control tokens are left out of a text that is decoded, those of users are not."""
    plain = bytes_with(tmp_path / "a.gguf").tokenizer
    assert plain.encode("a t h").ids == [*plain.encode("a t").ids, *plain.encode(" h").ids]
    control = bytes_with(tmp_path / "b.gguf", last=3).tokenizer
    assert control.encode("xthy").ids[1] == 256
    assert control.decode([256]) == ""
    assert control.decode([256], skip_special_tokens=False) == "th"
    user = bytes_with(tmp_path / "c.gguf", last=4).tokenizer
    assert user.decode([256]) == "th"


def test_texts_begin_as_the_file_says(tmp_path: Path) -> None:
    asked = bytes_with(tmp_path / "a.gguf", add_bos_token=True, bos_token_id=256, add_eos_token=True, eos_token_id=5)
    ids = asked.tokenizer.encode("ab").ids
    assert ids == [256, *bytes_with(tmp_path / "b.gguf").tokenizer.encode("ab").ids, 5]
    without = bytes_with(tmp_path / "c.gguf", add_bos_token=True)
    with pytest.raises(WrongCalibration, match=r"add_bos_token is set, and tokenizer\.ggml\.bos_token_id is None"):
        without.tokenizer.encode("ab")
    for key, value in (("add_space_prefix", True), ("precompiled_charsmap", [1, 2])):
        strange = bytes_with(tmp_path / f"{key}.gguf", **{key: value})
        with pytest.raises(NotRead, match=f"the key tokenizer.ggml.{key}, which is not read"):
            strange.windows("a text")


def test_types_that_the_package_cannot_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gguf = pytest.importorskip("gguf")
    file = quant.read_gguf(write(tmp_path / "a.gguf"))

    def unknown(data: Any, kind: Any) -> Any:
        raise NotImplementedError(f"Dequantization for {kind.name} is not yet implemented")

    monkeypatch.setattr(gguf.quants, "dequantize", unknown)
    for read in (lambda: file.array("token_embd.weight"), lambda: file.rows("token_embd.weight", np.zeros(1, int))):
        with pytest.raises(WrongCalibration, match=r"tensor token_embd\.weight of a\.gguf cannot be read: .*F32"):
            read()


def test_caches_and_static_inputs_are_parts_of_the_plan(tmp_path: Path) -> None:
    file, ids = quant.read_gguf(write(tmp_path / "a.gguf")), tokens(4, 30)
    ranges, by_words = quant.KeyRanges(), quant.KeyRanges()
    exact = quant.Llama(file, ranges).perplexity(ids)
    np.testing.assert_allclose(exact, quant.Llama(file, by_words.__call__).perplexity(ids), rtol=1e-5)
    for name, most in by_words.largest.items():
        np.testing.assert_allclose(ranges.largest[name], most, rtol=1e-5)
    cache = quant.Int8Cache.of(ranges)
    model, words = quant.Llama(file, cache)[0], quant.Llama(file, cache.__call__)[0]
    static = static_layers(file)
    outside = {name: layer.__call__ for name, layer in static.items()}
    values = model_inputs(file, ids)
    for layers, functions in (({}, {}), (static, outside)):
        model.run({"x": values}, layers)
        plans, seen = len(fused_sequences.versions), compiled(fused_sequences)
        for length in (30, 25, 19):  # kernels of int8 products differ between few rows and more than 64
            x = np.ascontiguousarray(values[:, :length])
            found, expected = model.run({"x": x}, layers)["x"], words.run({"x": x}, functions)["x"]
            np.testing.assert_allclose(found, expected, rtol=1e-2, atol=1e-2)  # a code may be the next one
            assert np.mean(np.abs(found - expected)) < 1e-4
        assert (len(fused_sequences.versions), compiled(fused_sequences)) == (plans, seen)
    plain = quant.Llama(file)[0]
    np.testing.assert_array_equal(plain.run({"x": values}, static)["x"], plain.run({"x": values}, outside)["x"])


def test_a_plan_refuses_keys_that_are_not_finite_and_keeps_nan(tmp_path: Path) -> None:
    file, ids = quant.read_gguf(write(tmp_path / "a.gguf")), tokens(4, 30)
    ranges, x = quant.KeyRanges(), model_inputs(file, ids)
    model = quant.Llama(file, ranges)
    model[0].run({"x": x})
    before = ranges.largest["0"].copy()
    bad = x.copy()
    bad[1, 5, 3] = np.nan
    for cache in (ranges, quant.Int8Cache.of(ranges)):
        with pytest.raises(NotFinite, match="its keys"):
            quant.Llama(file, cache)[0].run({"x": bad})
    np.testing.assert_array_equal(ranges.largest["0"], before)
    plain, static = quant.Llama(file)[0], static_layers(file)
    found, clean = (plain.run({"x": t}, static)["x"] for t in (bad, x))
    assert np.isnan(found[1, 5:]).all()
    np.testing.assert_array_equal(found[[0, 2, 3]], clean[[0, 2, 3]])


def model_inputs(file: quant.GGUF, ids: Any) -> Any:
    """Returns embeddings of tokens."""
    return np.array(quant.Llama(file).embed(ids)["x"])


def static_layers(file: quant.GGUF) -> Any:
    """Returns the first block's layers with int8 inputs of one static scale."""
    model = quant.Llama(file)
    with quant.calibrate(model[:1], quant.Config(inputs=quant.int8("tensor"), algorithm="minmax")) as run:
        run(model.embed(tokens(4, 30)))
        return quant.deploy(run.convert())
