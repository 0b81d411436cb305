"""Lines of 120 columns: calls broken behind commas, anything else before operators, notes where they fit."""

from __future__ import annotations

from pypto.backends.ascend.emit.text import WIDTH, wrapped

LONG = ", ".join(f"argument_{i}" for i in range(14))


def test_what_fits_stays() -> None:
    assert wrapped("    Exp(b, a, 64);", "  // k.py:7") == ["    Exp(b, a, 64);  // k.py:7"]


def test_a_note_that_does_not_fit_stands_above() -> None:
    text = f"    Exp({LONG[:100]});"
    assert wrapped(text, "  // a_long_name.py:7") == ["    // a_long_name.py:7", text]


def test_calls_are_broken_behind_commas() -> None:
    lines = wrapped(f"    Call({LONG}, last);")
    assert len(lines) == 2 and max(map(len, lines)) <= WIDTH
    assert lines[1].startswith("         argument_")
    assert " ".join(line.strip() for line in lines) == f"Call({LONG}, last);"


def test_records_are_broken_inside() -> None:
    lines = wrapped(f"    Call(first, Record{{{LONG}}}, last);")
    assert lines[0] == "    Call(first,"
    assert lines[1].startswith("         Record{argument_0,") and max(map(len, lines)) <= WIDTH
    assert lines[2].startswith(" " * 16 + "argument_")


def test_sums_are_broken_before_operators() -> None:
    total = " + ".join(f"operand_{i}" for i in range(14))
    lines = wrapped(f"    const int64_t total = {total};")
    assert lines[1].startswith("        + operand_") and max(map(len, lines)) <= WIDTH


def test_the_head_of_a_kernel_is_broken_at_its_own_parameters() -> None:
    lines = wrapped(f'extern "C" __mix__(1, 2) void k({LONG}) {{', opens=" k(")
    assert lines[1].startswith(" " * len('extern "C" __mix__(1, 2) void k(') + "argument")
