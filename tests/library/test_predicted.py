"""Predicted times of operators: beside the limit of the chip, and with the numbers that earlier launches write."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import pypto as pto
from pypto.library import rows
from pypto.library.timing import predict, predictions

HELD = (
    "silu", "mla_prolog", "grouped_matmul", "sparse_attention", "topk", "quantize_mxfp4", "attention_int8_cache",
    "sinkhorn", "select_experts", "w4a16_matmul", "w8a8_group_linear", "varlen_attention", "gelu",
)  # fmt: skip


@pto.jit
def doubled(x, y, BLOCK: pto.constexpr):
    start = pto.program_id(0) * BLOCK
    y[start : start + BLOCK] = x[start : start + BLOCK] * 2


def test_limit_of_products_is_the_cube_or_the_memory() -> None:
    row = rows["w8a8_matmul"]
    found = predict(row, "ascend910b2", "small")
    n = row.sizes["small"]
    operations = 2.0 * n["t"] * n["k"] * n["n"]
    assert found.cube == pytest.approx(operations / (24 * 16384 * 1.8e9))
    assert found.bound == "memory" and 0 < found.limit < found.seconds


def test_rows_without_products_are_bound_by_memory() -> None:
    found = predict(rows["silu"], "ascend950", "small")
    assert found.cube == 0 and found.bound == "memory"


def test_later_launches_find_results_of_earlier_ones_in_l2() -> None:
    """The second launch reads what the first has written; alone, it reads that from memory."""
    x, y, z = (np.ones((1 << 20,), np.float32) for _ in range(3))

    def pair() -> list[float]:
        with predictions("ascend910b2") as found:
            doubled[256](x, y, BLOCK=4096)
            doubled[256](y, z, BLOCK=4096)
        return [launch.levels["HBM"] for launch in found]

    first, second = pair()
    assert second < first / 10


def test_part_of_an_array_that_is_written_is_not_taken_for_all_of_it() -> None:
    x, y, z = (np.ones((1 << 20,), np.float32) for _ in range(3))
    with predictions("ascend910b2") as found:
        doubled[4](x, y, BLOCK=4096)
        doubled[256](y, z, BLOCK=4096)
    assert found[1].levels["HBM"] >= y.nbytes


@pytest.mark.parametrize("chip", ["ascend910b2", "ascend950"])
def test_every_row_has_a_predicted_time(chip: str) -> None:
    times = json.loads((Path(__file__).parents[2] / f"docs/library-{chip}.json").read_text(encoding="utf-8"))["times"]
    assert {row["operator"] for row in times} == set(rows)
    assert not [row["operator"] for row in times if not isinstance(row["predicted"], float)]


@pytest.mark.slow
@pytest.mark.parametrize("name", HELD)
@pytest.mark.parametrize("chip", ["ascend910b2", "ascend950"])
def test_figures_of_the_page_are_what_the_model_gives(chip: str, name: str) -> None:
    times = json.loads((Path(__file__).parents[2] / f"docs/library-{chip}.json").read_text(encoding="utf-8"))["times"]
    printed = next(row for row in times if row["operator"] == name)
    assert 1e3 * predict(rows[name], chip).seconds == pytest.approx(printed["predicted"], rel=0.03)


def test_later_launches_see_what_earlier_ones_wrote() -> None:
    """The list of blocks decides how often the second launch's loop runs."""
    found = predict(rows["block_sparse_attention"], "ascend910b2", "small")
    assert [launch.kernel for launch in found.launches] == ["sorted_list_kernel", "block_sparse_kernel"]
    assert np.isfinite(found.seconds) and found.seconds < 1e-3


def test_a_prediction_reads_the_facts_of_its_chip() -> None:
    """Grids follow the cores of the chip that is predicted, and not those of this machine."""
    found = {chip: predict(rows["attention_int8_cache"], chip, "small") for chip in ("ascend910b2", "ascend950")}
    assert all(np.isfinite(each.seconds) for each in found.values())
