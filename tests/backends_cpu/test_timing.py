"""Kernels that time themselves: what is emitted, and that nothing is where nobody asked."""

from __future__ import annotations

import pytest

import pypto as pto
from pypto.backends.cpu.codegen.function import lower
from pypto.backends.cpu.instrument.timing import clock_text
from pypto.backends.sites import area_bytes
from tests.backends_cpu.emulated import CrossEngine, neon_target
from tests.backends_cpu.lowering import fixed_target, lowered, optimized
from tests.conformance.cases import Launch
from tests.conformance.running import make_launch

NAMES = ("add_native", "softmax_native", "matmul_native", "attention_causal")


def timed(launch: Launch, target=None):
    function = optimized(launch)
    function.attrs["profile"] = True
    return lower(function, target or fixed_target())


@pytest.mark.parametrize("name", NAMES)
def test_only_a_timed_kernel_reads_the_counter(name: str) -> None:
    plain, found = lowered(make_launch(name)), timed(make_launch(name))
    assert "counter" not in plain.text and "profile" not in plain.text and plain.sites == ()
    assert found.text.count("call i64 @llvm.readcyclecounter()") == 2 * len(found.sites)
    assert found.scratch_bytes == (plain.scratch_bytes + 63) // 64 * 64 + area_bytes(len(found.sites))


@pytest.mark.parametrize("name", NAMES)
def test_text_is_the_same_each_time(name: str) -> None:
    first, second = timed(make_launch(name)), timed(make_launch(name))
    assert (first.text, first.sites) == (second.text, second.sites)


@pytest.mark.parametrize("name", NAMES)
def test_sites_are_a_tree_in_program_order(name: str) -> None:
    program, *sites = timed(make_launch(name)).sites
    assert (program.kind, program.parent) == ("program", -1)
    assert all(0 <= site.parent < number for number, site in enumerate(sites, 1))
    assert all(site.locs for site in sites)


def test_what_a_dot_packs_is_the_dots() -> None:
    sites = timed(make_launch("attention_causal")).sites
    dots = {site.locs[0].line for site in sites if site.kind == "dot"}
    assert {site.locs[0].line for site in sites if site.kind == "pack"} <= dots


def test_arm_reads_the_counter_that_users_may() -> None:
    engine = CrossEngine(neon_target())
    listing = engine.assembly(timed(make_launch("add_native"), neon_target()).text)
    assert "CNTVCT_EL0" in listing.upper()
    assert "PMCCNTR" not in listing.upper()
    assert "CNTVCT_EL0" in engine.assembly(clock_text("aarch64-linux-gnu")).upper()


def test_sort_names_its_line() -> None:
    @pto.jit
    def kernel(x, y):
        y[:] = pto.sort(x[:])

    import numpy as np

    x = np.ones(16, np.float32)
    function = optimized(Launch(kernel, 1, {"x": x, "y": x.copy()}, {}))
    function.attrs["profile"] = True
    assert any(site.kind == "sort" and site.locs for site in lower(function, fixed_target()).sites)
