"""The Ascend C of the MLA prolog and of sparse attention at the sizes of models: what an expert would look for."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

from pypto.backends.ascend.pipeline import lower_to_text
from pypto.backends.ascend.target import ascend_target
from pypto.backends.registry import plugin_for_target
from pypto.debug.simulate import function_of
from pypto.library import rows
from pypto.library.row import MODEL
from pypto.runtime.mode import mode

ROWS = ("mla_prolog", "mla_prolog_quant", "sparse_attention", "sparse_attention_quant")
CHIPS = ("ascend910b2", "ascend950")
LINE = 512  # bytes of a line of L2
CAST = re.compile(r"Cast\((\w+)[^,]*, (\w+)[^,]*, RoundMode::(\w+), \d+\);")

pytestmark = pytest.mark.slow


@cache
def texts(name: str, chip: str) -> dict[str, str]:
    """The text of every kernel that a row launches."""
    row, found = rows[name], dict[str, str]()
    values = row.sample(np.random.default_rng(0), MODEL)
    bound = row.bind((), values)
    run = row.implementation(plugin_for_target(chip), bound.dtype).run

    def watch(kernel: Any, _sizes: Any, given: Any, _interpret: bool) -> None:
        found[kernel.signature.kernel] = lower_to_text(function_of(kernel, given), ascend_target(chip))[1]

    with mode(watch=watch):
        run(**bound.values, **row.outputs(bound))
    return found


def all_texts() -> Iterator[str]:
    for name in ROWS:
        for chip in CHIPS:
            yield from texts(name, chip).values()


@pytest.mark.parametrize("chip", CHIPS)
def test_keys_are_read_in_whole_lines_of_memory(chip: str) -> None:
    """Each row of a panel of keys has 256 numbers of bfloat16, and so has each row of weights.

    L0C of ascend950 holds twice as many keys, so a panel of them is shallower; its memory is read by 32 bytes.
    """
    panel = re.search(r"Lesser<int32_t>\((\d+), depth", texts("sparse_attention", chip)["attention_kernel"])
    assert panel is not None and int(panel[1]) * 2 >= (LINE if chip == "ascend910b2" else LINE // 2)
    for kernel in ("down_kernel", "head_kernel"):
        columns = re.search(r"cols = .*?Lesser<int64_t>\([^()]*, (\d+)\)", texts("mla_prolog", chip)[kernel])
        assert columns is not None and int(columns[1]) * 2 >= LINE


@pytest.mark.parametrize("chip", CHIPS)
def test_rows_of_angles_are_copied_as_a_whole(chip: str) -> None:
    text = texts("mla_prolog_quant", chip)["rows_kernel"]
    for array in ("cos", "sin", "kr_cache"):
        copies = re.findall(rf"DataCopyPad\([^;]*{array}Gm[^;]*DataCopyExtParams\{{1, (\d+),", text)
        assert copies == ["128"], array


@pytest.mark.parametrize("chip", CHIPS)
def test_floats_become_int8_by_way_of_half_alone(chip: str) -> None:
    text = texts("mla_prolog_quant", chip)["rows_kernel"]
    lines = [line.strip() for line in text.splitlines() if "Cast(" in line]
    ends = [n for n, line in enumerate(lines) if re.search(r"Cast\((q_2|qnLocal_2)\b", line)]
    assert len(ends) == 2
    for n in ends:
        modes = [CAST.match(line) for line in lines[n - 2 : n + 1]]
        assert [m and m[3] for m in modes] == ["CAST_RINT", "CAST_TRUNC", "CAST_TRUNC"]


def test_a_number_is_read_from_a_buffer_once() -> None:
    for text in all_texts():
        reads = re.findall(r"const float \w+ = (\w+)\.GetValue\(0\);\n *const float \w+ = (\w+)\.GetValue\(0\);", text)
        assert not [a for a, b in reads if a == b]


def test_no_difference_of_a_number_with_itself() -> None:
    assert not [found for text in all_texts() for found in re.findall(r"\b(\w+) - \1\b", text)]


def test_places_are_named_where_they_change() -> None:
    for text in all_texts():
        body = text.partition("for (int64_t program")[2].partition("ASCEND_IS_AIV")[0]
        places = re.findall(r"// (\w+\.py:\d+)$", body, re.MULTILINE)
        assert places and all(a != b for a, b in itertools.pairwise(places))
