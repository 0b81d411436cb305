"""The schedule of a plan as data: launches and assemblies, live ranges of arrays, and the arena layout."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pypto.blocking import AUTO, Blocking
from pypto.graph.codegen.writer import Access, Argument
from pypto.graph.ir.dims import Sizes, value_of
from pypto.graph.ir.node import Graph, Node
from pypto.jit import Kernel
from pypto.runtime.arena import Arena, Buffer, Slot

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class PlanKernel:
    """A kernel of a plan: its source, which can be pasted into a file, and its compiled form.

    The kernel is not specialized for the sizes of `sized`, the arguments with a named dimension. `blocking` is the
    tuned blocking of its products.
    """

    name: str
    source: str
    form: str
    kernel: Kernel
    sized: tuple[str, ...] = ()
    blocking: Blocking = AUTO


@dataclass(frozen=True, slots=True)
class Step:
    """A launch of a kernel, or, if `kernel` is None, an assembly of an array by numpy.

    Parameters
    ----------
    nodes : tuple of Node
        The computed nodes; a step without a kernel assembles the last one.
    reads, writes : tuple of Node
        The arrays in memory that the step reads and writes.
    accesses : tuple of Access
        Each place in the kernel that reads or writes an argument.
    """

    nodes: tuple[Node, ...]
    reads: tuple[Node, ...]
    writes: tuple[Node, ...]
    kernel: PlanKernel | None = None
    arguments: tuple[Argument, ...] = ()
    grid: tuple[int, ...] = (1,)
    accesses: tuple[Access, ...] = ()


@dataclass(eq=False)
class Schedule:
    """Steps in order, with the live ranges and buffers of their arrays.

    Parameters
    ----------
    graph : Graph
    steps : tuple of Step
    lifetimes : mapping from Node to (int, int)
        The live ranges of arrays in the arena, as first and last step.
    fixed : mapping from Node to ndarray
        Constant arrays from outside of the function.
    constants : tuple of Node
        Numbers that must be stored as arrays.
    buffer_aliases : mapping from Node to Node
        Maps each array that is updated in place to the array that owns its buffer, which may be an argument. Arrays
        that share a buffer have disjoint lifetimes.
    waves : tuple of int
        For the first step of a wave the number of steps in the wave, and 0 for its other steps.
    updates : mapping from Node to Node
        Maps each argument that the function updates to its new value.
    """

    graph: Graph
    steps: tuple[Step, ...]
    lifetimes: dict[Node, tuple[int, int]]
    fixed: dict[Node, Array]
    constants: tuple[Node, ...]
    buffer_aliases: dict[Node, Node] = field(default_factory=dict)
    waves: tuple[int, ...] = ()
    updates: dict[Node, Node] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.waves = self.waves or (1,) * len(self.steps)

    @property
    def hints(self) -> Sizes:
        """Return the hints of the named dimensions."""
        return {dim.name: dim.hint for dim in self.graph.dims}

    def arena(self, sizes: Sizes) -> Arena:
        """Lay out the arena for sizes of the named dimensions; arrays that share a buffer use their owner's slot."""
        slots: dict[Node, Slot] = {}
        for node, (first, last) in self.lifetimes.items():
            owner = self.buffer_aliases.get(node, node)
            known = slots.get(owner)
            if known is not None:
                slots[owner] = replace(known, first=min(known.first, first), last=max(known.last, last))
            else:
                slots[owner] = Slot(Buffer(owner, value_of(owner.shape, sizes), owner.type.dtype), first, last)
        return Arena.packed(slots.values())
