"""`pypto lib`: the operators of the library, their checks and their times."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pypto.cli.output import Json, mistakes, say_json, say_table

Name = Annotated[str, typer.Argument(metavar="OPERATOR", help="Its name, as `pypto lib list` shows it.")]
Case = Annotated[str, typer.Option(help="A size or an edge case; `pypto lib show` lists them.")]


def list_operators(json: Json = False) -> None:
    """All operators: what each computes, and where it runs."""
    from pypto.library import rows

    with mistakes():
        if json:
            say_json({"operators": [facts(row) for row in rows.values()]})
            return
        table = [(row.name, row.doc, ", ".join(i.version for i in row.implementations)) for row in rows.values()]
        say_table("operators", ("operator", "computes", "versions"), table)


def facts(row: Any) -> dict[str, Any]:
    """A row as plain values."""
    return {
        "name": row.name, "doc": row.doc, "signature": row.text, "formula": row.formula, "source": row.source,
        "checks": row.signature.conditions.texts,
        "versions": {i.version: {"platforms": i.platforms, "dtypes": i.dtypes} for i in row.implementations},
        "sizes": {name: dict(size) for name, size in row.sizes.items()}, "edges": list(row.edges),
        "in place": list(row.effects), "tolerance": {name: str(t) for name, t in row.tolerance.items()},
    }  # fmt: skip


def listed(value: Any) -> Any:
    """A cell of the table of facts."""
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else value


def show(name: Name, json: Json = False) -> None:
    """One operator: signature, formula, versions, sizes, edge cases.

    Example:

        pypto lib show rms_norm
    """
    from pypto.library import rows

    with mistakes():
        row_facts = facts(rows[name])
        if json:
            say_json(row_facts)
        else:
            say_table(name, ("fact", "value"), [(k, listed(v)) for k, v in row_facts.items() if v])


def check(
    names: Annotated[list[str] | None, typer.Argument(metavar="OPERATOR", help="All of them without.")] = None,
    platform: Annotated[str, typer.Option(help="interpreter, cpu, ascend-sim, or another device.")] = "cpu",
    case: Case = "",
    seed: Annotated[int, typer.Option(help="Of the random arguments.", min=0)] = 0,
    items: Annotated[
        int, typer.Option(help="Of independent items, such as tokens, compare so many; 0, all.", min=0)
    ] = 0,
    json: Json = False,
) -> None:
    """Compare operators with their float64 references; the exit code is 1 where one differs.

    Example:

        pypto lib check rms_norm --case model --items 64
    """
    from pypto.library import rows

    with mistakes():
        checks = [
            one for name in names or list(rows) for one in rows[name].check(platform, case, seed=seed, items=items)
        ]
        if json:
            keys = ("operator", "platform", "version", "case", "dtype", "errors")
            say_json({"checked": [{key: getattr(one, key) for key in keys} for one in checks]})
            return
        table = [
            (one.operator, one.version, one.case, one.dtype, ", ".join(f"{k} {v:.2g}" for k, v in one.errors.items()))
            for one in checks
        ]
        say_table(f"on {platform}", ("operator", "version", "case", "dtype", "largest difference"), table)


def bench(
    names: Annotated[list[str] | None, typer.Argument(metavar="OPERATOR", help="All of them without.")] = None,
    platform: Annotated[str, typer.Option(help="A chip for which times are predicted, as in ascend910b2.")] = "",
    case: Case = "model",
    dtype: Annotated[str, typer.Option(help="Of the first array.")] = "",
    rep: Annotated[float, typer.Option(help="Milliseconds for each function.")] = 200,
    json: Json = False,
) -> None:
    """Time operators beside torch, or predict their time on an Ascend chip.

    Example:

        pypto lib bench rms_norm --platform ascend910b2
    """
    from pypto.library import rows

    with mistakes():
        chosen = [rows[name] for name in names or list(rows)]
        if platform:
            lines = [predicted(row, platform, case, dtype) for row in chosen]
        else:
            lines = [timed(row, case, dtype, rep) for row in chosen]
        if json:
            say_json({"times": lines})
        else:
            say_table(
                f"{case} size, {platform or 'here'}",
                tuple(lines[0]),
                [tuple(map(shown, one.values())) for one in lines],
            )


def timed(row: Any, case: str, dtype: str, rep: float) -> dict[str, Any]:
    """An operator's time and torch's, in milliseconds."""
    from pypto.library.timing import race

    times = race(row, case, dtype, rep)
    return {"operator": row.name, **{t.name: t.min for t in times.times}}


def predicted(row: Any, chip: str, case: str, dtype: str) -> dict[str, Any]:
    """An operator's predicted time and the limit that the chip allows, in milliseconds, or why it is refused.

    ``used`` is the part of the time in which the units that limit the launches are busy.
    """
    from pypto.errors import Diagnostic
    from pypto.library.timing import predict

    try:
        prediction = predict(row, chip, case, dtype)
    except Diagnostic as error:
        facts = dict.fromkeys(("predicted", "limit", "bound", "of limit", "used"), "·")
        return {"operator": row.name, **facts, "limits": f"refused: {str(error).splitlines()[0]}"}
    limits = ", ".join(f"{launch.kernel}: {launch.limit}" for launch in prediction.launches)
    return {
        "operator": row.name, "predicted": 1e3 * prediction.seconds, "limit": 1e3 * prediction.limit,
        "bound": prediction.bound,
        "of limit": f"{prediction.limit / prediction.seconds:.0%}", "used": f"{prediction.used:.0%}", "limits": limits,
    }  # fmt: skip


def shown(value: Any) -> str:
    """A cell of the table."""
    return f"{value:.4g} ms" if isinstance(value, float) else str(value)
