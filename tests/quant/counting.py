"""What the plans of layers have compiled, and what they observe beside the same layers outside of a plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from pypto.graph.tracing.launches import launch_of
from pypto.quant.calibrate.blocks import Block, float_layer
from pypto.quant.calibrate.observers import Statistics


def compiled(*functions: Any) -> int:
    """Counts the versions of the kernels in the plans of fused functions."""
    steps = [step for function in functions for version in function.versions for step in version.plan.steps]
    launches = [launch_of(step.nodes[-1]) for step in steps]
    kernels = {step.kernel.kernel for step in steps if step.kernel} | {x.kernel for x in launches if x}
    return sum(len(kernel.specializations) for kernel in kernels)


def check_observed(block: Block, values: Any) -> None:
    """Compares the result of a block, and the statistics of its layers, with those of functions that no plan has."""
    in_plan, alone = ({x.name: Statistics(x.name, x.weight.shape[1]) for x in block.layers} for _ in range(2))

    def outside(layer: Any) -> Any:
        run = replace(float_layer(layer), statistics=alone[layer.name])
        return run.__call__

    result = block.run(values, {x.name: replace(float_layer(x), statistics=in_plan[x.name]) for x in block.layers})
    expected = block.run(values, {layer.name: outside(layer) for layer in block.layers})
    np.testing.assert_allclose(result["x"], expected["x"], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(block.run(values)["x"], expected["x"], rtol=1e-4, atol=1e-5)
    for name, statistics in in_plan.items():
        assert statistics.rows == alone[name].rows > 0
        np.testing.assert_allclose(statistics.gram, alone[name].gram, rtol=1e-3, atol=1e-3)
