"""`pypto quant`: quantise a language model or a sentence encoder, and say what it cost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from pypto.cli.output import Json, mistakes, say_json
from pypto.cli.specs import UsageError

if TYPE_CHECKING:
    from pypto.cli.workloads import Layers, Measurement, Request, Step, Workload
    from pypto.quant import Config, Scheme
    from pypto.quant.calibrate.blocks import Progress
    from pypto.quant.report import Report

WEIGHTS: Final = ("int8", "int8:tensor", "int4", "int4:GROUP")
INPUTS: Final = ("none", "token", "tensor", "group:SIZE")


def quantise(  # noqa: PLR0913, PLR0917  # options of a command
    model: Annotated[Path, typer.Argument(help="A GGUF file of the Llama family, or a folder of a BERT model.")],
    text: Annotated[Path, typer.Option(help="A text: its beginning calibrates, what follows is evaluated.")],
    weights: Annotated[str, typer.Option(help=", ".join(WEIGHTS))] = "int4:128",
    inputs: Annotated[str, typer.Option(help=", ".join(INPUTS))] = "none",
    algorithm: Annotated[str, typer.Option(help="As in gptq, or smoothquant+gptq.")] = "gptq",
    skip: Annotated[list[str] | None, typer.Option(help="Layers that stay as they are; * stands for any text.")] = None,
    windows: Annotated[
        int | None, typer.Option(min=1, help="To calibrate on: 32 windows of the text, or 512 sentences.")
    ] = None,
    evaluate: Annotated[
        int | None, typer.Option(min=0, help="Behind them, to evaluate: 8 windows, or 64 sentences; 0 for none.")
    ] = None,
    length: Annotated[int, typer.Option(min=2, help="Tokens of a window, and at most of a sentence.")] = 512,
    decode: Annotated[int, typer.Option(min=0, help="Tokens to make, for the speed before and after.")] = 0,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A folder for the whole model, which this library reads.")
    ] = None,
    resume: Annotated[Path | None, typer.Option(help="A folder for the work: after a kill, it goes on there.")] = None,
    plot: Annotated[Path | None, typer.Option(help="A picture of the report, as in report.svg.")] = None,
    json: Json = False,
) -> None:
    """Quantise a model block by block, and report what each layer lost, bytes, and perplexities or cosines.

    The folder of --output is read by quant.load_llama or quant.load_bert, and its quantised layers by quant.load.

    A language model is a GGUF file. A sentence encoder is a folder in the form of transformers, with config.json,
    model.safetensors and tokenizer.json; each line of the text is a sentence.

    Examples:

        pypto quant model.gguf --text book.txt --weights int4:128 -o out

        pypto quant model.gguf --text book.txt --weights int8 --inputs token --algorithm smoothquant+gptq

        pypto quant all-MiniLM-L6-v2 --text sentences.txt --weights int8 --inputs group:64
    """
    with mistakes():
        from pypto import quant
        from pypto.cli.workloads import Request

        config = quant.Config(scheme_of(weights), inputs=inputs_of(inputs), algorithm=algorithm, skip=skip or [])
        refuse_output(model, output)
        refuse_plot(plot)
        if not text.is_file():
            raise UsageError(f"there is no file {text}")
        request = Request(str(text), text.read_text("utf-8"), windows, evaluate, length, decode)
        workload = workload_of(model, request)
        layers, report, worth = quantised(workload, config, resume)
        if output is not None:
            quant.save(layers, output, workload.blocks)
            workload.copy_tokenizer(output)
        if plot is not None:
            report.plot(plot)
        say(report, [one for one in (worth, workload.speed(layers)) if one is not None], model, json)


def say(report: Report, measured: list[Measurement], model: Path, json: bool) -> None:
    """What was lost, for people or for programs."""
    if json:
        say_json(report.json() | {"model": str(model)} | {one.key: one.values for one in measured})
        return
    print(report)
    for one in measured:
        print(one)


def refuse_output(model: Path, output: Path | None) -> None:
    """Say before the work that the model would be lost, or that the output is no folder."""
    if output is None:
        return
    if output.resolve() == model.resolve():
        raise UsageError(f"--output {output} is the folder of the model: give another one")
    if output.exists() and not output.is_dir():
        raise UsageError(f"--output {output} is a file: give a folder")


def refuse_plot(path: Path | None) -> None:
    """Say before the work that there is nothing to draw with."""
    if path is not None and find_spec("matplotlib") is None:
        raise UsageError("--plot needs matplotlib: pip install 'pypto-jit[viz]'")


def scheme_of(text: str) -> Scheme:
    """A scheme of weights from its text."""
    from pypto import quant

    name, _, others = text.partition(":")
    if text == "int4":
        return quant.int4()
    if name == "int4" and others.isdigit():
        return quant.int4(group=int(others))
    if name == "int8" and others in ("", "tensor"):
        return quant.int8(others or "channel")
    raise UsageError(f"--weights {text}: schemes are {', '.join(WEIGHTS)}")


def inputs_of(text: str) -> Scheme | None:
    """A scheme of inputs from its text."""
    from pypto import quant

    name, _, others = text.partition(":")
    if name == "group" and others.isdigit():
        return quant.int8("group", group=int(others))
    if text in ("token", "tensor"):
        return quant.int8(text)
    if text == "none":
        return None
    raise UsageError(f"--inputs {text}: schemes are {', '.join(INPUTS)}")


def workload_of(model: Path, request: Request) -> Workload:
    """A model of the kind that a path says, with its parts of the text."""
    from pypto.cli.language_models import LanguageModel
    from pypto.cli.sentence_encoders import SentenceEncoder

    if not model.exists():
        raise UsageError(f"there is no file and no folder {model}: give a GGUF file, or a folder of a BERT model")
    return SentenceEncoder.of(model, request) if model.is_dir() else LanguageModel.of(model, request)


def quantised(workload: Workload, config: Config, folder: Path | None) -> tuple[Layers, Report, Measurement]:
    """Calibrate, report on a sample, and evaluate."""
    from pypto import quant

    blocks = workload.blocks
    with quant.calibrate(blocks, config, folder) as run, progress(2 + len(workload.phases), len(blocks)) as step:
        for batch in workload.batches():
            run(batch)
        layers = run.convert(step("calibrating"))
        report = quant.report(blocks, layers, workload.sample(), step("comparing layers"))
        return layers, report, workload.evaluate(layers, step)


@contextmanager
def progress(phases: int, blocks: int) -> Iterator[Step]:
    """A bar on the terminal's error stream; in a pipe there is none."""
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading", total=phases * blocks)
        begun: list[str] = []

        def step(name: str) -> Progress:
            begun.append(name)
            bar.update(task, description=name)
            before = (len(begun) - 1) * blocks
            return lambda done, total: bar.update(task, completed=before + done * blocks // total)

        yield step
