"""`pypto quant` on a small sentence encoder of a folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pypto import quant
from pypto.errors.quant import WrongCalibration
from pypto.quant.models.bert_folder import SentenceTokenizer
from tests.cli.commands import answer, called
from tests.quant.test_encoder import HEADS, tensors

CONFIG = {"model_type": "bert", "hidden_act": "gelu", "num_hidden_layers": 2, "num_attention_heads": HEADS}
WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", *(f"w{number}" for number in range(46)))
INT8 = ("--weights", "int8", "--inputs", "group:16")
LINES = 40


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model with random weights, and a tokenizer of words."""
    tokenizers = pytest.importorskip("tokenizers")
    safetensors = pytest.importorskip("safetensors.numpy")
    path = tmp_path / "model"
    path.mkdir()
    write_config(path)
    safetensors.save_file(tensors(), path / "model.safetensors")
    table = {word: number for number, word in enumerate(WORDS)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(table, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.save(str(path / "tokenizer.json"))
    return path


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Sentences of 3 to 14 words, one a line, with empty lines and a repeated one."""
    rng = np.random.default_rng(0)
    lines = [" ".join(rng.choice(WORDS[4:], 3 + number % 12)) for number in range(LINES)]
    path = tmp_path / "text.txt"
    path.write_text("\n\n".join([lines[0], *lines]), "utf-8")
    return path


@pytest.fixture
def arguments(folder: Path, text: Path) -> tuple[str, ...]:
    return str(folder), "--text", str(text), "--windows", "30", "--evaluate", "10"


def write_config(path: Path, **changed: Any) -> None:
    """config.json; None leaves a key out."""
    config = {key: value for key, value in (CONFIG | changed).items() if value is not None}
    (path / "config.json").write_text(json.dumps(config), "utf-8")


def vectors(folder: Path, lines: list[str], layers: Any = None) -> Any:
    """Embeddings, of all lines at once."""
    model = quant.load_bert(folder)
    return model.embed(*SentenceTokenizer.of(folder, model, 512)(lines), layers)


@pytest.mark.filterwarnings("ignore::pypto.errors.quant.FewSamples")
def test_the_agreement_is_that_of_lines_behind_those_of_the_calibration(
    arguments: tuple[str, ...], folder: Path, text: Path, tmp_path: Path
) -> None:
    said = answer("quant", *arguments, *INT8, "--skip", "1.up", "-o", tmp_path / "o")
    names = [f"{block}.{part}" for block in (0, 1) for part in ("qkv", "output", "up", "down")]
    assert [line["layer"] for line in said["layers"]] == [name for name in names if name != "1.up"]
    assert all(30 < line["output_sqnr"] < 60 for line in said["layers"])
    assert said["bytes_after"] < said["bytes_before"] / 3
    lines = [line for line in text.read_text("utf-8").splitlines() if line][-10:]
    layers = quant.load(tmp_path / "o")
    exact, found = vectors(folder, lines), vectors(folder, lines, layers)
    np.testing.assert_array_equal(vectors(tmp_path / "o", lines, layers), found)
    assert quant.cosine(vectors(tmp_path / "o", lines), found).min() > 0.99
    cosines = quant.cosine(exact, found)
    assert said["agreement"]["least_cosine"] == pytest.approx(cosines.min(), abs=1e-4)
    assert said["agreement"]["mean_cosine"] == pytest.approx(cosines.mean(), abs=1e-4)
    assert 0.99 < said["agreement"]["least_cosine"] < said["agreement"]["mean_cosine"] < 1
    assert 0.98 < said["agreement"]["rank_correlation"] <= 1
    assert said["sentences_per_second"].keys() == {"float32", "quantised"}
    assert min(said["sentences_per_second"].values()) > 0


@pytest.mark.filterwarnings("ignore::pypto.errors.quant.FewSamples")
def test_a_table_for_people_and_work_that_goes_on(arguments: tuple[str, ...], tmp_path: Path) -> None:
    options = ("--weights", "int4:16", "--resume", str(tmp_path / "work"))
    shown = called("quant", *arguments, *options)
    assert shown.exit_code == 0
    assert "1.down" in shown.stdout and " MB become " in shown.stdout
    for name in ("least cosine: 0.9", "mean cosine: 0.9", "rank correlation: 0."):
        assert f"embedding agreement, {name}" in shown.stdout
    assert "sentences in a second quantised: " in shown.stdout
    silent = called("quant", *arguments, *options, "--evaluate", "0")
    table = shown.stdout.partition("embedding agreement")[0]
    assert silent.stdout.strip() == table.strip()


@pytest.mark.filterwarnings("ignore::pypto.errors.quant.FewSamples")
def test_a_plot_of_a_report(arguments: tuple[str, ...], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    called("quant", *arguments, *INT8, "--plot", tmp_path / "a.svg")
    assert "SQNR of outputs" in (tmp_path / "a.svg").read_text("utf-8")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--windows", "32"), "has 40 different sentences, one a line, and 32 + 10 are asked for: give a longer text"),
        (("--evaluate", "2"), "--evaluate 2: similarities have ranks from 3 sentences on"),
        (("--decode", "4"), "a sentence encoder makes no tokens: leave out --decode"),
        (("--text", "missing.txt"), "there is no file missing.txt"),
    ],
)
def test_what_the_text_cannot_give_is_refused(
    arguments: tuple[str, ...], options: tuple[str, ...], message: str
) -> None:
    found = called("quant", *arguments, *options)
    assert found.exit_code == 2
    assert message in found.stderr


def test_the_model_is_not_written_over(arguments: tuple[str, ...], folder: Path) -> None:
    before = (folder / "model.safetensors").read_bytes()
    found = called("quant", *arguments, *INT8, "-o", folder)
    assert found.exit_code == 2
    assert "is the folder of the model: give another one" in found.stderr
    assert (folder / "model.safetensors").read_bytes() == before


def without(name: str) -> Callable[[Path], None]:
    """A folder without a file."""
    return lambda path: (path / name).unlink()


def damaged(name: str) -> Callable[[Path], None]:
    """A folder with a file that is none of its kind."""

    def change(path: Path) -> None:
        (path / name).write_bytes(b"{")

    return change


def configured(**changed: Any) -> Callable[[Path], None]:
    """A folder with another configuration."""
    return lambda path: write_config(path, **changed)


def with_file(name: str, content: Any) -> Callable[[Path], None]:
    """A folder with one more file."""

    def change(path: Path) -> None:
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_text(json.dumps(content), "utf-8")

    return change


def without_a_tensor(path: Path) -> None:
    """A folder whose weights have a hole."""
    safetensors = pytest.importorskip("safetensors.numpy")
    given = tensors()
    del given["encoder.layer.1.output.dense.bias"]
    safetensors.save_file(given, path / "model.safetensors")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without("config.json"), "it has no config.json"),
        (without("model.safetensors"), "it has no model.safetensors"),
        (without("tokenizer.json"), "it has no tokenizer.json"),
        (damaged("config.json"), "config.json cannot be read: "),
        (damaged("model.safetensors"), "model.safetensors cannot be read: "),
        (damaged("tokenizer.json"), "tokenizer.json cannot be read: "),
        (configured(model_type="roberta"), "its model_type is roberta, and bert is offered"),
        (configured(hidden_act="relu"), "its hidden_act is relu, and gelu is offered"),
        (configured(position_embedding_type="relative_key"), "and absolute is offered"),
        (configured(num_attention_heads=None), "config.json does not say num_attention_heads"),
        (configured(num_hidden_layers=3), "it has tensors of 2 layers, and config.json says 3"),
        (configured(vocab_size=51), "it has tensors of 50 vocab_size, and config.json says 51"),
        (configured(num_attention_heads=5), "5 heads do not divide a width of 48"),
        (configured(is_decoder=True), "its is_decoder is True, and False is offered"),
        (configured(embedding_size=16), "config.json has the key embedding_size, which is not read"),
        (configured(rotary_base=1e4), "config.json has the key rotary_base, which is not read"),
        (with_file("config.json", [1]), "config.json is no configuration"),
        (
            with_file("1_Pooling/config.json", {"pooling_mode_cls_token": True}),
            "its pooling_mode_cls_token in 1_Pooling",
        ),
        (with_file("1_Pooling/config.json", {"pooling_mode_mean_tokens": False}), "and the mean over the tokens is"),
        (with_file("modules.json", [{"type": "sentence_transformers.models.Dense"}]), "has a module Dense, and"),
        (with_file("sentence_bert_config.json", {"do_lower_case": True}), "its do_lower_case in sentence_bert_config"),
        (without_a_tensor, "there is no tensor encoder.layer.1.output.dense.bias"),
    ],
)
def test_a_folder_that_is_no_such_model_is_refused(
    arguments: tuple[str, ...], folder: Path, change: Callable[[Path], None], message: str
) -> None:
    change(folder)
    found = called("quant", *arguments)
    assert found.exit_code == 1
    assert message in found.stderr
    assert "help: " in found.stderr


def test_what_a_real_folder_says_is_known(folder: Path) -> None:
    """Keys and files as those of all-MiniLM-L6-v2, of which none changes an embedding."""
    said = {
        "_name_or_path": "a", "architectures": ["BertModel"], "attention_probs_dropout_prob": 0.1, "hidden_size": 48,
        "gradient_checkpointing": False, "hidden_dropout_prob": 0.1, "initializer_range": 0.02, "vocab_size": 50,
        "intermediate_size": 96, "layer_norm_eps": 1e-12, "max_position_embeddings": 20, "pad_token_id": 0,
        "position_embedding_type": "absolute", "transformers_version": "4.8.2", "type_vocab_size": 2,
        "use_cache": True,
    }  # fmt: skip
    expected = vectors(folder, ["w1 w2", "w3"])
    write_config(folder, **said)
    pooling = {"word_embedding_dimension": 48, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}
    with_file("1_Pooling/config.json", pooling)(folder)
    with_file("modules.json", [{"type": f"sentence_transformers.models.{kind}"} for kind in ("Pooling", "Normalize")])(
        folder
    )
    np.testing.assert_array_equal(vectors(folder, ["w1 w2", "w3"]), expected)


def test_a_model_that_is_nowhere_is_refused(arguments: tuple[str, ...]) -> None:
    found = called("quant", "nowhere", *arguments[1:])
    assert found.exit_code == 2
    assert "there is no file and no folder nowhere" in found.stderr


def test_long_sentences_are_cut_and_strange_tokens_refused(folder: Path) -> None:
    model = quant.load_bert(folder)
    ids, mask = SentenceTokenizer.of(folder, model, 512)(["w1 " * 100, "w2"])
    assert ids.shape == mask.shape == (2, len(model.positions))
    assert ids[1].tolist()[:4] == [2, 6, 3, 0] and mask[1].sum() == 3
    assert SentenceTokenizer.of(folder, model, 5)(["w1 " * 100])[0].shape == (1, 5)
    few = SentenceTokenizer(folder, SentenceTokenizer.of(folder, model, 5).tokenizer, 6)
    with pytest.raises(WrongCalibration, match="gives token 6, and the model has 6"):
        few(["w2"])
