"""A decoder generates text: one fused function computes a layer, and its call is bound to weights and cache once."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from pypto import fuse, library
from pypto.arrays import Dim
from pypto.errors.quant import WrongCalibration
from pypto.quant.arrays import Array
from pypto.quant.checks import check_layers, check_range
from pypto.quant.deploy import DeployedLayer, deployed
from pypto.quant.formats.cache import Int8Cache
from pypto.quant.formats.gguf import READERS
from pypto.quant.layer import Layer, QuantizedLayer
from pypto.quant.models.decoding.attention import append_kernel, attend_kernel
from pypto.quant.models.decoding.cache import CHANGED, KeyValueCache, Store
from pypto.quant.models.decoding.fused_products import FusedProducts
from pypto.quant.models.decoding.sampling import check_draw, choose
from pypto.quant.models.decoding.weights import RowProduct, joined, product_of
from pypto.quant.models.llama import Llama, integers
from pypto.quant.models.llama_file import LAST_NORM, LINEAR, LOGITS
from pypto.quant.models.llama_layer import NORMS, forward, rms_norm, rotation
from pypto.quant.tensor import QuantizedTensor
from pypto.runtime.launches import LaunchList

KEYS: Final = 64  # positions in a block of attention
CHUNK: Final = 256  # tokens of a prompt in one prefill step
DEFAULT: Final = 1024  # default capacity of a cache in tokens
ROWS: Final = Dim("rows", hint=CHUNK)
LENGTH: Final = Dim("length", hint=DEFAULT)  # tokens in a cache
TOKENS: Final = Dim("tokens", hint=DEFAULT)  # that a cache has room for
SAME_INPUTS: Final = (("q", "k", "v"), ("output",), ("gate", "up"), ("down",))  # linear layers
ConvertedLayer = QuantizedLayer | QuantizedTensor | DeployedLayer


class Decoder:
    """A language model that generates one token after the other on kernels, with a key-value cache.

    A step has one row of inputs, so its time is that of reading the weights: fewer bits are faster. Weights are stored
    in tiles of columns, and all launches of a step are bound once. Steps of one decoder share memory, so only one may
    run at a time.

    Parameters
    ----------
    model : Llama
        With an `Int8Cache` as `Llama.cache`, keys and values are in int8.
    layers : mapping of str to QuantizedLayer, QuantizedTensor or DeployedLayer, optional
        Layers by name, as `Calibration.convert` and `quant.deploy` return them; ``"head"`` computes the logits. Other
        layers are as in the file.
    floats : bool
        Whether layers as in the file become float32. By default, their int4 and int8 blocks are used directly, which
        gives the same numbers in less memory.

    Raises
    ------
    WrongScheme
        If a layer has int8 inputs with one static scale, or with scales of groups.
    WrongCalibration
        If the cache is of another kind, or the model has no layer of a given name.

    Examples
    --------
    >>> from pypto import quant
    >>> model = quant.load_llama("SmolLM2-135M-Instruct.Q4_1.gguf")  # doctest: +SKIP
    >>> decoder = quant.Decoder(model)  # doctest: +SKIP
    >>> ids = model.tokenizer.encode("The capital of France is").ids  # doctest: +SKIP
    >>> model.tokenizer.decode(decoder.generate(ids, tokens=3))  # doctest: +SKIP
    ' Paris.'
    """

    def __init__(self, model: Llama, layers: Mapping[str, ConvertedLayer] | None = None, floats: bool = False) -> None:
        self.model = model
        self.floats = floats
        self.layers = dict(layers or {})
        check_layers(self.layers, model.layer_names)
        if not isinstance(model.cache, Int8Cache | None):
            raise WrongCalibration(what="the model's cache is no Int8Cache", way="use quant.Int8Cache.of(ranges)")
        sizes = model.sizes
        self.heads, self.shared, self.width, self.depth = sizes.heads, sizes.shared, sizes.width, sizes.depth
        self.eps = sizes.eps
        self.blocks = [self.products(number) for number in range(len(model))]
        self.norms = [
            {name: model.array(f"blk.{number}.{name}.weight") for name in NORMS} for number in range(len(model))
        ]
        self.head = FusedProducts(joined([self.columns(LOGITS, model.head_name)]))
        self.last_norm = model.array(LAST_NORM)
        self.row = np.zeros((1, self.width), np.float32)
        self.last = logits.bind(self.row, self.head, self.last_norm, self.eps)

    @property
    def bytes(self) -> int:
        """The bytes of all weights that a step reads."""
        every = [fused for block in self.blocks for fused in block.values()]
        return sum(product.weight.bytes for fused in (*every, self.head) for product in fused.products)

    def columns(self, name: str, tensor: str) -> RowProduct:
        """Returns a layer by columns, given or from the file; rotary pairs of queries and keys become halves."""
        given: Any = self.layers.get(name)
        file = self.model.file
        if given is None and not self.floats and file.kind(tensor) in READERS:
            given = self.model.weight(tensor)
        if given is not None and not isinstance(given, DeployedLayer):
            given = deployed(name, given)
        product = product_of(Layer(name, file.array(tensor)) if given is None else given)
        is_rotated = name.endswith((".q", ".k"))
        return product.take(halves(product.outputs, self.depth)) if is_rotated else product

    def products(self, number: int) -> dict[str, FusedProducts]:
        """Builds the products of a block, by the first of the layers that have the same inputs."""
        by_part = {
            part: self.columns(f"{number}.{part}", f"blk.{number}.{name}.weight") for part, name in LINEAR.items()
        }
        return {parts[0]: FusedProducts(joined([by_part[part] for part in parts])) for parts in SAME_INPUTS}

    def cache(self, tokens: int | None = None) -> KeyValueCache:
        """Allocates an empty cache for so many tokens; by default 1024, or the model's context if that is shorter.

        Raises
        ------
        WrongCalibration
            If `tokens` exceeds the context.
        """
        if tokens is None:
            tokens = min(DEFAULT, self.model.context or DEFAULT)
        self.model.check_length(tokens)
        scales = None
        if isinstance(self.model.cache, Int8Cache):
            order = halves(self.depth, self.depth)
            scales = np.stack(
                [self.model.cache.key_scales[str(number)][:, order] for number in range(len(self.blocks))]
            )
        cache = KeyValueCache.of((len(self.blocks), self.shared, tokens, self.depth), scales)
        rotary = rotation(self.model.sizes.frequencies, np.arange(tokens))
        x, layers = self.row, []
        for number, products in enumerate(self.blocks):
            store = cache.of_block(number)
            bound = step.bind(x, products, self.norms[number], store, rotary, cache.position, 1, self.eps)
            layers.append(bound.launches)
            x, _ = bound.result
        last = logits.bind(x, self.head, self.last_norm, self.eps)
        steps = (one for each in (*layers, last.launches) for one in each.steps)
        launches = LaunchList(tuple(steps)).bind()
        return replace(cache, launches=launches, logits=last.result, rotary=rotary, owner=self)

    def reserve(self, cache: KeyValueCache, count: int) -> None:
        """Checks that a cache belongs to this decoder, and that so many more tokens fit."""
        if cache.owner is not self:
            raise WrongCalibration(what="the cache is of another decoder", way="use one that this one's cache() gives")
        cache.reserve(count)

    def step(self, token: int, cache: KeyValueCache) -> Array:
        """Appends a token to a cache, and returns the logits of the next one.

        Parameters
        ----------
        token : int
        cache : KeyValueCache
            Of this decoder.

        Returns
        -------
        ndarray of shape (vocabulary,), float32
            The logits, which the next step overwrites.

        Raises
        ------
        FullCache
        WrongCalibration
            If the cache belongs to another decoder, or the token is not in the vocabulary.
        """
        self.reserve(cache, 1)
        self.row[:] = self.model.rows([token])
        cache.position[0] = cache.length
        cache.launches.run()
        cache.length += 1
        return cache.logits[0]

    def prefill(self, ids: Any, cache: KeyValueCache) -> Array:
        """Appends the tokens of a prompt to a cache, and returns the logits of the next one; see `step`.

        Raises
        ------
        FullCache
        WrongCalibration
            If there are no tokens, several sequences, tokens outside of the vocabulary, or a cache of another decoder.
        """
        ids = prompt_of(ids)
        self.reserve(cache, len(ids))
        rows = self.model.rows(ids)
        for start in range(0, len(ids), CHUNK):
            self.append(rows[start : start + CHUNK].copy(), cache)
        logits: Array = self.last.run()[0]
        return logits

    def append(self, x: Array, cache: KeyValueCache) -> None:
        """Appends tokens, given by their embeddings, to a cache; keeps the last one's hidden state for the logits."""
        cache.position[0] = cache.length
        cache.length += len(x)
        for number, products in enumerate(self.blocks):
            given = products, self.norms[number], cache.of_block(number), cache.rotary, cache.position
            x, changed = prefill(x, *given, cache.length, self.eps)
            cache.put(number, changed)
        self.row[:] = x[-1]

    def generate(  # options of one draw
        self,
        ids: Any,
        tokens: int = 64,
        temperature: float = 0.0,
        top: int = 0,
        seed: int = 0,
        stop: Sequence[int] = (),
    ) -> list[int]:
        """Generates tokens that follow a prompt.

        Parameters
        ----------
        ids : sequence of int
            The prompt, at least one token.
        tokens : int
            The largest number of tokens; there are fewer if the model ends its text.
        temperature : float
            0 takes the most probable token (greedy); 1 samples from the model's probabilities.
        top : int
            Sample only from so many most probable tokens (top-k); 0 means all.
        seed : int
            The seed of the samples.
        stop : sequence of int
            Tokens that end the text, besides those that the file names (`Llama.ends`).

        Returns
        -------
        list of int
            The tokens, without the one that ended the text.

        Raises
        ------
        WrongCalibration
            If there are several prompts, more tokens than the context, a temperature or `top` below 0, or anything else
            that `prefill` refuses.
        NotFinite
            If logits have NaN or infinity.
        """
        return list(self.stream(ids, tokens, temperature, top, seed, stop))

    def stream(  # options of one draw
        self,
        ids: Any,
        tokens: int = 64,
        temperature: float = 0.0,
        top: int = 0,
        seed: int = 0,
        stop: Sequence[int] = (),
    ) -> Iterator[int]:
        """Yields the tokens of `generate` one by one."""
        prompt = prompt_of(ids)
        check_draw(temperature, top)
        others = np.asarray(stop, np.int64)
        check_range("token", others, self.model.sizes.vocabulary)
        draw = partial(choose, temperature=temperature, top=top, rng=np.random.default_rng(seed))
        cache = self.cache(len(prompt) + tokens)
        return self.generated(prompt, cache, tokens, self.model.ends | set(others.tolist()), draw)

    def generated(
        self, prompt: Array, cache: KeyValueCache, tokens: int, ends: Collection[int], draw: Callable[[Array], int]
    ) -> Iterator[int]:
        """Yields tokens behind a prompt, until one ends the text."""
        logits = self.prefill(prompt, cache)
        for number in range(tokens):
            token = draw(logits)
            if token in ends:
                return
            yield token
            if number + 1 < tokens:
                logits = self.step(token, cache)


def prompt_of(ids: Any) -> Array:
    """Returns the tokens of one sequence, at least one."""
    numbers = integers(ids)
    if numbers.ndim != 1:
        what = f"a prompt has the shape {numbers.shape}"
        raise WrongCalibration(what=what, way="give the tokens of one sequence; each has a cache of its own")
    if not len(numbers):
        raise WrongCalibration(what="a prompt has no tokens", way="begin with one, as the first of the vocabulary")
    return numbers


def halves(count: int, depth: int) -> Array:
    """Returns the order of outputs that gives each head its even channels, then its odd ones."""
    heads = np.arange(count).reshape(-1, depth)
    return np.concatenate([heads[:, 0::2], heads[:, 1::2]], axis=1).ravel()


def linear(products: Mapping[str, FusedProducts], parts: Sequence[str], x: Array) -> list[Array]:
    """Computes linear layers with the same inputs, whose results lie side by side."""
    return [products[parts[0]](x)]


def heads_of(rows: Array, shared: int, depth: int) -> tuple[Array, Array, Array]:
    """Splits rows into queries, keys and values (tokens, heads, depth); the last two have `shared` heads."""
    heads = rows.reshape(rows.shape[0], rows.shape[1] // depth, depth)
    return heads[:, : -2 * shared], heads[:, -2 * shared : -shared], heads[:, -shared:]


def layer(
    x: Array, products: Mapping[str, FusedProducts], norms: Mapping[str, Array], store: Store,
    rotary: Sequence[Array], position: Array, length: int, eps: float,
) -> tuple[Array, dict[str, Array]]:  # fmt: skip
    """Computes a layer for the last of `length` tokens; returns the store's arrays with their keys and values.

    The store's arrays are donated, so those of the result lie in their memory. The position of the first of these
    tokens is read from memory, so that launches may be bound once.
    """
    changed = {name: array.copy() for name, array in store.arrays.items()}
    store = replace(store, **changed)

    def attend(parts: Sequence[Array]) -> Array:
        rows = parts[0]
        shared, _, depth = store.keys.shape
        q, k, v = heads_of(rows, shared, depth)
        count, heads, _ = q.shape
        given = q, k, v, *rotary, store.keys, store.values, store.key_scale, store.value_scale, position
        if count == 1:
            out = np.empty_like(q, shape=q.shape)
            attend_kernel[(shared,)](*given, out, SCALE=1 / math.sqrt(depth), BN=KEYS)
            return out.reshape(count, heads * depth)
        rotated = np.empty_like(q, shape=(heads, count, depth))
        append_kernel[(count, shared)](*given, rotated)
        return attention_of_rows(rotated[None], store, length)[0].transpose(1, 0, 2).reshape(count, heads * depth)

    return forward(x, partial(linear, products), attend, norms, eps), changed


def attention_of_rows(q: Array, store: Store, length: int) -> Array:
    """Computes attention of the last tokens of a cache, by a row of the library."""
    keys, values = store.keys[None, :, :length], store.values[None, :, :length]
    if store.key_scale is None or store.value_scale is None:
        return library.attention(q, keys, values, causal=1)
    return library.attention_int8_cache(q, keys, store.key_scale, values, store.value_scale[None, :, :length], causal=1)


DONATED: Final = tuple(f"store.{name}" for name in CHANGED)
step = fuse(layer, donate=DONATED)
prefill = fuse(
    layer,
    donate=DONATED,
    dims={
        "x": (ROWS, None), "rotary.0": (TOKENS, None), "rotary.1": (TOKENS, None), "length": LENGTH,
        "store.keys": (None, TOKENS, None), "store.values": (None, TOKENS, None), "store.value_scale": (None, TOKENS),
    },
)  # fmt: skip


@fuse
def logits(x: Array, head: FusedProducts, norm: Array, eps: float) -> Array:
    """Computes the logits of one token."""
    return head(rms_norm(x, norm, eps))
