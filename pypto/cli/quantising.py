"""`pypto quant`: quantise a language model of a GGUF file, and say what it cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from pypto.cli.output import Json, mistakes, say_json
from pypto.cli.specs import UsageError

if TYPE_CHECKING:
    from pypto.quant import Config, Llama, Scheme

WEIGHTS: Final = ("int8", "int8:tensor", "int4", "int4:GROUP")
INPUTS: Final = ("none", "token", "tensor", "group:SIZE")


def quantise(  # noqa: PLR0913, PLR0917  # options of a command
    model: Annotated[Path, typer.Argument(help="A GGUF file of the Llama family.")],
    text: Annotated[Path, typer.Option(help="A text: its beginning calibrates, the rest is evaluated.")],
    weights: Annotated[str, typer.Option(help=", ".join(WEIGHTS))] = "int4:128",
    inputs: Annotated[str, typer.Option(help=", ".join(INPUTS))] = "none",
    algorithm: Annotated[str, typer.Option(help="As in gptq, or smoothquant+gptq.")] = "gptq",
    skip: Annotated[list[str] | None, typer.Option(help="Layers that stay as they are; * stands for any text.")] = None,
    windows: Annotated[int, typer.Option(min=1, help="Windows of the text to calibrate on.")] = 32,
    evaluate: Annotated[int, typer.Option(min=0, help="Windows behind them to evaluate; 0 for none.")] = 8,
    length: Annotated[int, typer.Option(min=2, help="Tokens of a window.")] = 512,
    decode: Annotated[int, typer.Option(min=0, help="Tokens to make, for the speed before and after.")] = 0,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A folder for the model, as compressed-tensors.")
    ] = None,
    resume: Annotated[Path | None, typer.Option(help="A folder for the work: after a kill, it goes on there.")] = None,
    plot: Annotated[Path | None, typer.Option(help="A picture of the report, as in report.svg.")] = None,
    json: Json = False,
) -> None:
    """Quantise a model block by block, and report what each layer lost, bytes, and perplexities.

    Examples:

        pypto quant model.gguf --text book.txt --weights int4:128 -o out

        pypto quant model.gguf --text book.txt --weights int8 --inputs token --algorithm smoothquant+gptq
    """
    with mistakes():
        from pypto import quant

        config = quant.Config(scheme_of(weights), inputs=inputs_of(inputs), algorithm=algorithm, skip=skip or [])
        refuse_factors(config, output)
        refuse_plot(plot)
        loaded = quant.load_llama(model)
        if not text.is_file():
            raise UsageError(f"there is no file {text}")
        ids = loaded.windows(text.read_text("utf-8"), length)
        if len(ids) < windows + evaluate:
            raise UsageError(
                f"{text} has {len(ids)} windows of {length} tokens, and {windows} + {evaluate} are asked for: "
                f"give a longer text, or smaller --windows, --evaluate or --length"
            )
        found = measured(loaded, config, ids[:windows], ids[windows : windows + evaluate], resume)
        if output is not None:
            quant.save(found["layers"], output)
        if plot is not None:
            found["report"].plot(plot)
        speeds = measured_speeds(loaded, found["layers"], ids[0], decode) if decode else {}
        said = found["report"].json() | {"model": str(model), "perplexity": found["perplexity"]}
        said |= {"tokens_per_second": speeds} if speeds else {}
        if json:
            say_json(said)
            return
        print(found["report"])
        for name, value in found["perplexity"].items():
            print(f"perplexity {name}: {value:.3f}")
        for name, value in speeds.items():
            print(f"tokens in a second {name}: {value:.1f}")


def refuse_factors(config: Config, output: Path | None) -> None:
    """Say before the work, and not after it, that the form of the files has no place for factors."""
    from pypto.quant.algorithm import find

    found = find(config.algorithm)
    if output is not None and any(step.factors for step in found.steps or (found,)):
        raise UsageError(
            f"compressed-tensors has no place for the factors of {found.name}: leave out --output, or use gptq"
        )


def refuse_plot(path: Path | None) -> None:
    """Say before the work that there is nothing to draw with."""
    if path is not None and find_spec("matplotlib") is None:
        raise UsageError("--plot needs matplotlib: pip install 'pypto-jit[viz]'")


def scheme_of(text: str) -> Scheme:
    """A scheme of weights from its text."""
    from pypto import quant

    name, _, rest = text.partition(":")
    if text == "int4":
        return quant.int4()
    if name == "int4" and rest.isdigit():
        return quant.int4(group=int(rest))
    if name == "int8" and rest in ("", "tensor"):
        return quant.int8(rest or "channel")
    raise UsageError(f"--weights {text}: schemes are {', '.join(WEIGHTS)}")


def inputs_of(text: str) -> Scheme | None:
    """A scheme of inputs from its text."""
    from pypto import quant

    name, _, rest = text.partition(":")
    if name == "group" and rest.isdigit():
        return quant.int8("group", group=int(rest))
    if text in ("token", "tensor"):
        return quant.int8(text)
    if text == "none":
        return None
    raise UsageError(f"--inputs {text}: schemes are {', '.join(INPUTS)}")


def measured(model: Llama, config: Config, data: Any, ids: Any, folder: Path | None) -> dict[str, Any]:
    """Calibrate, report on the first window, and evaluate."""
    from pypto import quant

    with quant.calibrate(model, config, folder) as run, progress(2 + 2 * bool(len(ids)), len(model)) as step:
        for start in range(0, len(data), 8):
            run(model.embed(data[start : start + 8]))
        layers = run.convert(step("calibrating"))
        report = quant.report(model, layers, model.embed(data[:1]), step("comparing layers"))
        perplexity = {}
        if len(ids):
            perplexity["float32"] = model.perplexity(ids, progress=step("evaluating float32"))
            deployed = quant.deploy(layers) if config.inputs else layers
            perplexity["quantised"] = model.perplexity(ids, deployed, progress=step("evaluating quantised"))
    return {"layers": layers, "report": report, "perplexity": perplexity}


def measured_speeds(model: Llama, layers: Mapping[str, Any], prompt: Any, tokens: int) -> dict[str, float]:
    """Tokens in a second, of the model in float32 and of the quantised one."""
    from pypto import quant

    speeds = {}
    for name, decoder in (
        ("float32", quant.Decoder(model, floats=True)),
        ("quantised", quant.Decoder(model, layers)),
    ):
        cache = decoder.cache(len(prompt) + tokens + 1)
        decoder.prefill(prompt, cache)
        token = int(decoder.step(prompt[-1], cache).argmax())  # compiled by that
        start = time.perf_counter()
        for _ in range(tokens):
            token = int(decoder.step(token, cache).argmax())
        speeds[name] = tokens / (time.perf_counter() - start)
    return speeds


Progress = Callable[[int, int], None]


@contextmanager
def progress(stages: int, blocks: int) -> Iterator[Callable[[str], Progress]]:
    """A bar on the terminal's error stream; in a pipe there is none."""
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading", total=stages * blocks)
        begun: list[str] = []

        def step(name: str) -> Progress:
            begun.append(name)
            bar.update(task, description=name)
            before = (len(begun) - 1) * blocks
            return lambda done, total: bar.update(task, completed=before + done * blocks // total)

        yield step
