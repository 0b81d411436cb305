"""Refuses kernels that cannot be differentiated: they read memory after a write, or store elements twice."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NoReturn

from pypto.errors.gradients import NoGradient
from pypto.ir.core import Function, Op, Value
from pypto.passes.adjoint.addresses import Site, Stored, how_stored, how_stored_by_branches, sites
from pypto.passes.adjoint.derive import is_of, read_arrays, stores_reals
from pypto.passes.adjoint.footprint import AffineNumbers, LaunchNumbers
from pypto.passes.adjoint.in_place import reads_before_writes
from pypto.passes.adjoint.launch_values import LaunchValues
from pypto.passes.adjoint.stores import are_disjoint, stores_once
from pypto.passes.analysis.memory_effects import accessed_array


def arrays_in_place(kernel: Any, function: Function, wrt: Collection[str], is_allowed: bool) -> tuple[str, ...]:
    """Returns the float arrays that a kernel stores, and also reads or is differentiated by.

    Stores to unknown arrays, and sums in place, are refused.
    """
    name = kernel.signature.kernel
    read = read_arrays(function)
    stores: dict[str, Op] = {}
    for op in function.walk():
        if op.name not in ("store", "tile_store", "atomic_add") or not stores_reals(op):
            continue
        array = accessed_array(op)
        if array is None:
            way = "store to arguments of the kernel"
            raise NoGradient(op.loc, kernel=name, problem="it is not known which array is stored to", way=way)
        if array.hint in read and (op.name == "atomic_add" or not is_allowed):
            way = f"store to another array than `{array.hint}`"
            raise NoGradient(op.loc, kernel=name, problem=f"`{array.hint}` is read and written in place", way=way)
        if array.hint in stores and (op.name == "atomic_add") != (stores[array.hint].name == "atomic_add"):
            way = "store to an array, or add to it"
            raise NoGradient(op.loc, kernel=name, problem=f"`{array.hint}` is stored and added to", way=way)
        stores[array.hint] = op
    return tuple(v.hint for v in function.args if v.hint in stores and (v.hint in read or v.hint in wrt))


def check_in_place(kernel: Any, function: Function, names: Mapping[str, str], launch: LaunchNumbers) -> None:
    """Refuses arrays whose elements are read after they were written. `names` maps results to their arrays."""
    for after, name in names.items():
        loads, stores = (
            [x for x in sites(function.body, ops) if is_of(x.op, array)]
            for ops, array in ((("load", "tile_load"), name), (("store", "tile_store"), after))
        )
        how = reads_before_writes(function, loads, stores, name, launch)
        if how is not Stored.ONCE:
            verb = "is" if how is Stored.TWICE else "may be"
            problem = f"`{name}` is read and written in place, and an element {verb} read after it was written"
            way = f"store to another array than `{name}`"
            raise NoGradient(stores[-1].op.loc, kernel=kernel.signature.kernel, problem=problem, way=way)


def check_stores(kernel: Any, function: Function, in_place: Mapping[str, str], launch: LaunchNumbers) -> None:
    """Refuses stores unless each element is provably written once, by a proof or by enumeration."""
    numbers, values = AffineNumbers(function, launch), LaunchValues(function, launch)
    stores: dict[Value, list[Site]] = {}
    for site in sites(function.body, ("store", "tile_store")):
        array = accessed_array(site.op)
        if array is not None and stores_reals(site.op):
            stores.setdefault(array, []).append(site)
    for array, writes in stores.items():
        if not are_apart(writes, numbers, values):
            how = how_stored(function, writes, array.hint, launch)
            if how is Stored.TWICE:
                how = how_stored_by_branches(function, writes, array.hint, launch)
            if how is not Stored.ONCE:
                refuse_stores(kernel, writes, in_place.get(array.hint, array.hint), how)


def are_apart(stores: list[Site], numbers: AffineNumbers, values: LaunchValues) -> bool:
    """Says whether the stores to one array provably write each element once, all together."""
    for n, site in enumerate(stores):
        if not stores_once(site.op, site.loops, numbers, values):
            return False
        if not all(are_disjoint((site.op, site.loops), (x.op, x.loops), numbers) for x in stores[:n]):
            return False
    return True


def refuse_stores(kernel: Any, stores: list[Site], name: str, how: Stored) -> NoReturn:
    """Raises the error at the last store to an array."""
    who = "two statements" if len(stores) > 1 else "several programs or trips"
    way = "store each element once, or use `atomic_add`, whose sums have gradients"
    problem = f"an element of `{name}` may be stored by {who}"
    if how is Stored.DATA:
        problem += ": where it is depends on what is loaded"
        way = f"compute the place from program ids and numbers; {way}"
    elif how is Stored.MANY:
        problem += ": no proof is found, and there are too many to compare"
        way = f"store slices of whole tiles, `{name}[i : i + BLOCK, :] = …`; {way}"
    raise NoGradient(stores[-1].op.loc, kernel=kernel.signature.kernel, problem=problem, way=way)
