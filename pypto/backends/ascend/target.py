"""The chips: frozen records of facts that the scheduler, the verifier and the timing model read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from pypto.errors import OptionError

KB: Final = 1024
FRACTAL_ROWS: Final = 16  # of the blocks that matrices are made of in a cube core's memories
PLAIN: Final = "ND"  # row after row: of arrays in GM, and of all that is not made of fractals


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory of a core: bytes a program may use, the alignment of addresses in it, and how matrices may lie there.

    A layout is `PLAIN`, or two letters for a matrix of fractals (`cube.layout`): the first one is the order of
    fractals, the second one that of the elements of a fractal, Z along rows and N along columns.
    """

    bytes: int
    alignment: int
    layouts: tuple[str, ...] = (PLAIN,)


@dataclass(frozen=True, slots=True)
class AscendTarget:
    """Facts about a chip.

    `memories` are those of one core; the vector cores have UB, the cube cores the others. A chip that `loads_panels`
    brings all of an operand from L1 to L0 at once, transposed or not (LoadData2DParamsV2); it lacks some of the older
    loads, and nothing fills L0A or L0B there. The cube unit begins a product before the one before it has ended: what
    adds to a result of less than `ordered_product_fractals` fractals needs a barrier. Bandwidths are in bytes for each
    cycle of one core (`per_core`) or in bytes per second of the whole chip.
    """

    name: str
    arch: int
    flag: str
    cube_cores: int
    vector_cores: int
    mhz: int
    memories: Mapping[str, Memory]
    hbm_bytes_per_second: float
    l2_bytes: int
    l2_bytes_per_second: float
    l2_written_per_second: float
    orders_vector: bool
    ordered_product_fractals: int
    loads_panels: bool
    has_bf16_arithmetic: bool

    @property
    def ratio(self) -> int:
        """Vector cores to a cube core."""
        return self.vector_cores // self.cube_cores

    def layout(self, space: str) -> str:
        """How matrices lie in a memory that has one layout only."""
        (only,) = self.memories[space].layouts
        return only

    def seconds(self, cycles: float) -> float:
        return cycles / (self.mhz * 1e6)


# Words that loads of 2201 turn lie as ZZ in L1: what is turned together are neighbours then.
_MEMORIES_2201: Final = MappingProxyType({
    "UB": Memory(192 * KB - 256 - 8 * KB, 32), "L1": Memory(512 * KB - 256, 32, ("NZ", "ZZ")),
    "L0A": Memory(64 * KB, 512, ("ZZ",)), "L0B": Memory(64 * KB, 512, ("ZN",)), "L0C": Memory(128 * KB, 64, ("NZ",)),
    "BT": Memory(1 * KB, 64), "FB": Memory(2 * KB, 128),
})  # fmt: skip
_MEMORIES_3510: Final = MappingProxyType({
    **_MEMORIES_2201, "UB": Memory(248 * KB, 32), "L1": Memory(512 * KB, 32, ("NZ",)),
    "L0A": Memory(64 * KB, 512, ("NZ",)), "L0C": Memory(256 * KB, 64, ("NZ",)),
    "BT": Memory(4 * KB, 64), "FB": Memory(4 * KB, 64),
})  # fmt: skip

# L2's rate is that of what it has: published are 3.4 TB/s where it has three bytes of four and HBM brings the fourth.
# It reads and writes side by side: documented are two rates of a core, 110 and 86 bytes a cycle, and what published
# attention over 32768 keys must move in 3.26 ms is 5.59 TB/s both ways together, more than it could read alone.
_READ: Final = 0.75 / (1 / 3.4e12 - 0.25 / 1.6e12)
_B1: Final = AscendTarget(
    "ascend910b1", 2201, "dav-2201", 24, 48, 1850, _MEMORIES_2201, hbm_bytes_per_second=1.6e12,
    l2_bytes=192 << 20, l2_bytes_per_second=_READ, l2_written_per_second=_READ * 86 / 110, orders_vector=False,
    ordered_product_fractals=10, loads_panels=False, has_bf16_arithmetic=False)  # fmt: skip

TARGETS: Final = MappingProxyType({target.name: target for target in (
    _B1,
    replace(_B1, name="ascend910b2", mhz=1800),
    replace(_B1, name="ascend910b3", mhz=1800, cube_cores=20, vector_cores=40),
    replace(_B1, name="ascend910b4", mhz=1500, cube_cores=20, vector_cores=40, hbm_bytes_per_second=0.8e12),
    replace(_B1, name="ascend910c"),
    replace(_B1, name="ascend950", arch=3510, flag="dav-3510", mhz=1650, cube_cores=32, vector_cores=64,
        memories=_MEMORIES_3510, l2_bytes=128 << 20, orders_vector=True, ordered_product_fractals=0,
        loads_panels=True),
)})  # fmt: skip


def ascend_target(name: str) -> AscendTarget:
    """The record of a chip.

    Raises
    ------
    OptionError
        When there is no such chip.

    Examples
    --------
    >>> ascend_target("ascend910b2").vector_cores
    48
    """
    if name not in TARGETS:
        raise OptionError(f"unknown Ascend target {name!r}; known are {', '.join(TARGETS)}")
    return TARGETS[name]
