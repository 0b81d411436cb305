"""Target descriptions: frozen records of chips, which the scheduler, the verifier and the timing model read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from pypto.errors import OptionError
from pypto.errors.device import UnsupportedChip
from pypto.ir.types import DType, bfloat16, float8_e4m3fn, float8_e5m2, float16, float32, int8

KB: Final = 1024
REPEAT: Final = 256  # bytes that a vector instruction processes at a time
FRACTAL_ROWS: Final = 16  # of the blocks that matrices are made of in a cube core's memories
PLAIN: Final = "ND"  # row after row: of arrays in GM, and of all that is not made of fractals


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory of a core: its usable bytes, the alignment of addresses, and the layouts that matrices may have.

    A layout is `PLAIN`, or two letters for a matrix of fractals (`cube.layout`): the first is the order of fractals,
    the second the order of elements in a fractal, Z row-major and N column-major.
    """

    bytes: int
    alignment: int
    layouts: tuple[str, ...] = (PLAIN,)


@dataclass(frozen=True, slots=True)
class AscendTarget:
    """Facts about a chip.

    `memories` are those of one core; the vector cores have UB, the cube cores the others. A chip that `loads_panels`
    copies a complete operand from L1 to L0 in one instruction, transposed or not (LoadData2DParamsV2). It lacks some of
    the older loads, and its fill instruction cannot write L0A or L0B. The cube unit overlaps consecutive products: an
    accumulation into fewer than `ordered_product_fractals` fractals needs a barrier. With `has_unit_flags`, products
    and the way out of L0C order themselves by units of 512 bytes. Products of `multiplies` are native. Bandwidths are
    in bytes per second of the chip.

    The facts are those of Ascend C's public documentation: capacities and alignments from the pages on buffers and on
    the instructions that use them, `orders_vector` from the page on synchronisation, `multiplies` from the table of
    types of Mmad, and `ordered_product_fractals` from its constraints: ``(m / 16) * (n / 16) < 10``, for all chips.
    The simulated device has figures of its own, from the public headers; tests compare the two.
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
    has_unit_flags: bool
    loads_panels: bool
    multiplies: tuple[DType, ...] = (float16, bfloat16, float32, int8)

    @property
    def ratio(self) -> int:
        """Vector cores per cube core."""
        return self.vector_cores // self.cube_cores

    def layout(self, space: str) -> str:
        """The layout of matrices in a memory that has only one."""
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

# Bytes per second that L2 reads, fitted as docs/timing.md says; of two rates of a core, 110 and 86 bytes a cycle, the
# second one is that of writes.
_READ: Final = 6.0e12
_B1: Final = AscendTarget(
    "ascend910b1", 2201, "dav-2201", 24, 48, 1850, _MEMORIES_2201, hbm_bytes_per_second=1.503e12,
    l2_bytes=192 << 20, l2_bytes_per_second=_READ, l2_written_per_second=_READ * 86 / 110, orders_vector=False,
    ordered_product_fractals=10, has_unit_flags=True, loads_panels=False)  # fmt: skip

_950: Final = replace(
    _B1, name="ascend950", arch=3510, flag="dav-3510", mhz=1650, cube_cores=32, vector_cores=64,
    memories=_MEMORIES_3510, hbm_bytes_per_second=1.637e12, l2_bytes=128 << 20, orders_vector=True,
    has_unit_flags=False, loads_panels=True,
    multiplies=(*_B1.multiplies, float8_e4m3fn, float8_e5m2))  # fmt: skip


def _type(base: AscendTarget, name: str, cores: int, mhz: int, l2_mb: int, hbm: float = 0.0) -> AscendTarget:
    """A chip of a family: `cores` cube cores, with two vector cores each."""
    return replace(base, name=name, cube_cores=cores, vector_cores=2 * cores, mhz=mhz, l2_bytes=l2_mb << 20,
        hbm_bytes_per_second=hbm or base.hbm_bytes_per_second)  # fmt: skip


def _types_950(names: str, cores: int, mhz: int, l2_mb: int, rate: int) -> tuple[AscendTarget, ...]:
    """Chips of the 950 family. `rate` is ddr_rate of CANN's platform files: bytes per cycle for each core."""
    return tuple(_type(_950, f"ascend950{n}", cores, mhz, l2_mb, rate * cores * mhz * 1e6) for n in names.split())


# Cores, clocks and sizes of L2 are those of CANN's public platform files. A number of a type follows a letter for the
# memory beside it (pr or dt) and stands for what CANN calls it: ascend950pr_9589 is Ascend950PR_9589.
_TYPES: Final = (
    _B1,
    _type(_B1, "ascend910b2", 24, 1800, 192),
    _type(_B1, "ascend910b2c", 24, 1800, 192),
    _type(_B1, "ascend910b3", 20, 1800, 192),
    _type(_B1, "ascend910b4", 20, 1500, 96, 0.75e12),
    _type(_B1, "ascend910b4-1", 20, 1500, 168, 0.75e12),
    *(_type(_B1, f"ascend910_{n}", 20, 1500, 168) for n in ("9362", "9363")),
    _type(_B1, "ascend910_9372", 20, 1800, 192),
    *(_type(_B1, f"ascend910_{n}", 24, 1800, 192) for n in ("9381", "9382")),
    *(_type(_B1, f"ascend910_{n}", 24, 1850, 192) for n in ("9391", "9392")),
    replace(_B1, name="ascend910c"),
    _950,
    *_types_950("pr_950z", 4, 1650, 16, 4),
    *_types_950("dt_950x", 8, 1650, 32, 19),
    *_types_950("dt_950y", 8, 1650, 32, 14),
    *_types_950("dt_9571 dt_9572", 28, 1650, 128, 80),
    *_types_950("dt_9573 dt_9574", 28, 1650, 112, 70),
    *_types_950("dt_9575 dt_9576", 28, 1650, 128, 61),
    *_types_950("dt_9577 dt_9578", 28, 1650, 112, 54),
    *_types_950("pr_9579", 28, 1650, 128, 31),
    *_types_950("pr_957b pr_957bx pr_957c", 28, 1650, 112, 27),
    *_types_950("pr_957d", 28, 1650, 96, 23),
    *_types_950("dt_9581 dt_9581x dt_9582 dt_9582x", 32, 1650, 128, 80),
    *_types_950("dt_9583 dt_9584", 32, 1650, 112, 70),
    *_types_950("dt_9585 dt_9586", 32, 1650, 128, 61),
    *_types_950("dt_9587 dt_9588", 32, 1650, 112, 54),
    *_types_950("pr_9589", 32, 1650, 128, 31),
    *_types_950("pr_958b", 32, 1650, 112, 27),
    *_types_950("dt_9591 dt_9592 dt_95a1 dt_95a2", 36, 1800, 128, 80),
    *_types_950("dt_9595 dt_9596", 36, 1800, 128, 61),
    *_types_950("pr_9599", 36, 1800, 128, 31),
)
TARGETS: Final = MappingProxyType({target.name: target for target in _TYPES})
# Names for the parts of a family that no record has: how many cores such a device has, the device says.
_FAMILIES: Final = (("ascend910b1", "ascend910b"), ("ascend910c", "ascend910_93"), ("ascend950", "ascend950"))
_OTHER_GENERATIONS: Final = re.compile(r"(?i:(ascend)?310\w*|ascend910(a|b|pro\w+|premium\w+)?)")


def ascend_target(name: str) -> AscendTarget:
    """Look up the record of a chip.

    Raises
    ------
    UnsupportedChip
        When the chip is known, and no kernel can be compiled for it.
    OptionError
        When there is no such chip.

    Examples
    --------
    >>> ascend_target("ascend910b2").vector_cores
    48
    """
    refuse(name)
    if name not in TARGETS:
        raise OptionError(f"unknown Ascend target {name!r}; known are {', '.join(TARGETS)}")
    return TARGETS[name]


def refuse(name: str) -> None:
    """Raise the reason why no kernel is compiled for a chip, if there is one.

    Raises
    ------
    UnsupportedChip
        For chips of other generations, such as 310P.
    """
    if _OTHER_GENERATIONS.fullmatch(name):
        raise UnsupportedChip(
            chip=name, reason="its cube and vector units share one core, for which no rules exist here"
        )


def record_name(soc: str) -> str:
    """Translate CANN's name of a chip to the name of its record, or of its family where it has none.

    Raises
    ------
    UnsupportedChip
        When the chip is known, and no kernel can be compiled for it.

    Examples
    --------
    >>> record_name("Ascend910B2C"), record_name("Ascend910_9382"), record_name("Ascend950PR_95zz")
    ('ascend910b2c', 'ascend910_9382', 'ascend950')
    """
    name = soc.lower()
    refuse(name)
    return name if name in TARGETS else next((own for own, start in _FAMILIES if name.startswith(start)), name)
