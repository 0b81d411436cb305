"""The steps of a plan as data: launches and assemblies, the arrays between them, and their places in an arena."""

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
    """A kernel of a plan: its text, which can be pasted into a file, and what it is launched as.

    `sized` are its arguments with a dimension by name, for whose sizes it is not specialized; `blocking` is what tuning
    found for its products.
    """

    name: str
    source: str
    form: str
    kernel: Kernel
    sized: tuple[str, ...] = ()
    blocking: Blocking = AUTO


@dataclass(frozen=True, slots=True)
class Step:
    """A launch, or where `kernel` is None an assembly of the node's array from its inputs'.

    Parameters
    ----------
    nodes : tuple of Node
        What it computes; the last is what a step without a kernel assembles.
    reads, writes : tuple of Node
        Arrays in memory.
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
    """Steps in order, and where their arrays are.

    Parameters
    ----------
    graph : Graph
    steps : tuple of Step
    lifetimes : mapping from Node to (int, int)
        The first and the last step of arrays in the arena.
    fixed : mapping from Node to ndarray
        Arrays that do not change: those that the function took from outside.
    constants : tuple of Node
        Numbers that have to be arrays.
    buffer_aliases : mapping from Node to Node
        Maps each array that is updated in place to the array that owns its buffer. Arrays that share a buffer have
        disjoint lifetimes.
    waves : tuple of int
        For each step how many, from it on, overlap: 1 where it is alone, 0 where one before it says so.
    """

    graph: Graph
    steps: tuple[Step, ...]
    lifetimes: dict[Node, tuple[int, int]]
    fixed: dict[Node, Array]
    constants: tuple[Node, ...]
    buffer_aliases: dict[Node, Node] = field(default_factory=dict)
    waves: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        self.waves = self.waves or (1,) * len(self.steps)

    @property
    def hints(self) -> Sizes:
        """The hints of dimensions by name."""
        return {dim.name: dim.hint for dim in self.graph.dims}

    def arena(self, sizes: Sizes) -> Arena:
        """The arena for sizes of the dimensions by name; arrays that share memory are one slot, under their owner."""
        slots: dict[Node, Slot] = {}
        for node, (first, last) in self.lifetimes.items():
            owner = self.buffer_aliases.get(node, node)
            known = slots.get(owner)
            if known is not None:
                slots[owner] = replace(known, first=min(known.first, first), last=max(known.last, last))
            else:
                slots[owner] = Slot(Buffer(owner, value_of(owner.shape, sizes), owner.type.dtype), first, last)
        return Arena.packed(slots.values())
