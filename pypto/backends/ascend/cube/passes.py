"""The passes that the lowerings for cube cores run, in their order.

`K_BLOCKING` runs for all products. The others are of mixed kernels: `PARTITION` makes the two sides, and `CUBE_SIDE`
runs on the cube core's side, with the partition and the target.
"""

from __future__ import annotations

from typing import Final

from pypto.backends.ascend.tile.column_tiling import tile_columns
from pypto.backends.ascend.tile.core_partition import partition
from pypto.backends.ascend.tile.k_blocking import block_k
from pypto.backends.ascend.tile.software_pipeline import software_pipeline
from pypto.passes.manager import Pass

K_BLOCKING: Final = (
    Pass("k_blocking", block_k, "first: what else is asked of a product depends on the depth of its steps", "dot",
        optional=True),
)  # fmt: skip
PARTITION: Final = (
    Pass("core_partition", lambda function, target: partition(function), "after K blocking: sides see the loops as they"
        " run", "dot"),
)  # fmt: skip
CUBE_SIDE: Final = (
    Pass("software_pipeline", lambda function, sides, target: software_pipeline(sides), "before column tiling, whose"
        " loops have no halves", optional=True),
    Pass("column_tiling", tile_columns, "last: it asks how many products share L0C", optional=True),
)  # fmt: skip
PASSES: Final = (*K_BLOCKING, *PARTITION, *CUBE_SIDE)
