"""Kernels of the conformance suite on their way to text: they break no rule, and their listings are read back."""

from __future__ import annotations

from pathlib import Path

import pytest

from pypto.backends.ascend.block.verify import problems
from pypto.backends.ascend.blockir.parser import parse
from pypto.backends.ascend.blockir.printer import listing
from pypto.backends.ascend.pipeline import lower_to_text
from pypto.backends.ascend.target import ascend_target
from pypto.errors import Diagnostic
from pypto.passes import optimize
from tests.backends_ascend.test_ascendc import complaints
from tests.conformance.running import ALL, make_launch
from tests.sim.device import needs_compiler

B2 = ascend_target("ascend910b2")


@needs_compiler
@pytest.mark.parametrize(
    "name", ["box", "layer_norm_backward", "leave_early", "matmul_bf16", "reduce_i8", "scatter", "softmax_f64"]
)
def test_texts_compile_without_a_warning(name: str, tmp_path: Path) -> None:
    launch = make_launch(name)
    function = optimize(launch.kernel.compile(**launch.arguments).program.function)
    assert complaints(lower_to_text(function, B2)[1], tmp_path) == ""


@pytest.mark.parametrize("name", sorted(ALL))
def test_whole_kernels(name: str) -> None:
    launch = make_launch(name)
    function = optimize(launch.kernel.compile(**launch.arguments).program.function)
    try:
        kernel, text = lower_to_text(function, B2)
    except Diagnostic as refused:
        assert "Ascend" in str(refused)
        return
    assert problems(kernel, B2) == []
    written = listing(kernel)
    assert listing(parse(written)) == written
    assert parse(written) == kernel or "float('nan')" in written  # which equals nothing
    assert [line for line in text.splitlines() if len(line) > 120] == []
