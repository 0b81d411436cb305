"""Programs that lie side by side become one."""

from dataclasses import replace

import pytest

from pypto.ir.core import Function, ProgramMap
from pypto.passes.coarsen_2d import coarsen_strips
from pypto.passes.coarsening import coarsen_programs
from pypto.passes.target_facts import TargetFacts
from tests.passes.conftest import body_of
from tests.passes.matrices import PRELUDE, load, store
from tests.passes.targets import AMX, AVX512


def place(axis=0, size=32):
    return f"""
        %pid: i32 = program_id {{axis = {axis}}}
        %number: i64 = cast %pid {{dtype = i64}}
        %wide: i64 = constant {{value = {size}}}
        %at: i64 = mul %number, %wide
    """


def end(first, extent, axis=0):
    """An extent that ends with the last program."""
    return f"""
        %{first}: i32 = num_programs {{axis = {axis}}}
        %{first + 1}: i64 = cast %{first} {{dtype = i64}}
        %{first + 2}: i64 = mul %{first + 1}, %wide
        %{first + 3}: i64 = minimum {extent}, %{first + 2} {{propagate_nan = false}}
    """


LEFT = load("%left", "a", "%zero", "%zero", (8, 16))


def columns(axis=0, more=""):
    """A product of few rows whose programs differ in columns."""
    return f"""{PRELUDE} {place(axis)} {LEFT} {load("%right", "b", "%zero", "%at", (16, 32))}
        %result: tile<8x32xf32> = dot %left, %right
        {more}
        {store("%result", "%zero", "%at", (8, 32))}
    """


def bias_of_one_column():
    """A product of one row and one column, and a bias whose reshape has no dimension for the rows of others."""
    return f"""{PRELUDE} {place(size=1)}
        {load("%left", "a", "%at", "%zero", (1, 16))} {load("%right", "b", "%zero", "%zero", (16, 1))}
        %flat: tile<1xf32> = constant {{value = 1.0}}
        %bias: tile<1x1xf32> = reshape %flat {{shape = [1, 1]}}
        %product: tile<1x1xf32> = dot %left, %right
        %result: tile<1x1xf32> = add %product, %bias
        {store("%result", "%at", "%zero", (1, 1))}
    """


def coarse_columns(axis=0):
    return f"""{PRELUDE} {place(axis)} {LEFT} {end(900, "%cb", axis)}
        {load("%right", "b", "%zero", "%at", (16, 1024), columns="%903")}
        %result: tile<8x1024xf32> = dot %left, %right
        {end(910, "%co", axis)}
        {store("%result", "%zero", "%at", (8, 1024), columns="%913")}
    """


def test_columns_of_skinny_products(becomes):
    def run(function):
        (made,) = coarsen_programs(function, AVX512)
        assert made.programs == ProgramMap(factor=32)
        return made

    becomes(run, columns(), coarse_columns())


def test_behind_others_in_the_grid_single_programs_have_a_version_of_their_own(make_kernel):
    function = make_kernel(columns(axis=1))
    coarse, single = coarsen_programs(function, AVX512)
    assert (coarse.programs, single.programs) == (ProgramMap(1, 32), ProgramMap(has_coarsened_version=True))
    assert body_of(coarse) == body_of(make_kernel(coarse_columns(axis=1)))
    assert body_of(single) == body_of(function)
    assert coarse.name != single.name


ROWS = load("%right", "b", "%i", "%zero", (256, 32))


def rows(size=64, stop=16384):
    """A deep product whose programs differ in rows."""
    return f"""{PRELUDE} {place(size=size)}
        %acc: tile<{size}x32xf32> = constant {{value = 0.0}}
        %lo: i64 = constant {{value = 0}} %hi: i64 = constant {{value = {stop}}} %st: i64 = constant {{value = 256}}
        %total: tile<{size}x32xf32> = for %lo, %hi, %st, %acc {{ (%i: i64, %sum: tile<{size}x32xf32>)
          {load("%left", "a", "%at", "%i", (size, 256))} {ROWS}
          %next: tile<{size}x32xf32> = dot %left, %right, %sum
          yield %next
        }}
        {store("%total", "%at", "%zero", (size, 32))}
    """


def test_rows_of_deep_products(becomes):
    def run(function):
        (made,) = coarsen_programs(function, AVX512)
        assert made.programs == ProgramMap(factor=16)
        return made

    becomes(
        run,
        rows(),
        f"""{PRELUDE} {place(size=64)}
        %acc: tile<1024x32xf32> = constant {{value = 0.0}}
        %lo: i64 = constant {{value = 0}} %hi: i64 = constant {{value = 16384}} %st: i64 = constant {{value = 256}}
        %total: tile<1024x32xf32> = for %lo, %hi, %st, %acc {{ (%i: i64, %sum: tile<1024x32xf32>)
          {end(900, "%ra")} {load("%left", "a", "%at", "%i", (1024, 256), rows="%903")} {ROWS}
          %next: tile<1024x32xf32> = dot %left, %right, %sum
          yield %next
        }}
        {end(910, "%ro")} {store("%total", "%at", "%zero", (1024, 32), rows="%913")}
        """,
    )


@pytest.mark.parametrize(
    ("text", "attributes"),
    [
        (columns(more="store %po, %f"), ""),
        (columns(more='print_ %pid {hex = false, prefix = ""}'), ""),
        (columns(more="%count: i32 = num_programs {axis = 0}"), ""),
        (columns(axis=1), "attributes {profile = true}"),
        (bias_of_one_column(), ""),
        (rows(stop=2048), ""),
        (rows(size=768), ""),
    ],
    ids=["store", "program is read", "grid is read", "two versions timed", "a dimension is new", "flat", "many rows"],
)
def test_programs_that_stay_single(make_kernel, text, attributes):
    function = make_kernel(text, attributes)
    (made,) = coarsen_programs(function, AVX512)
    assert made is function and not made.programs.is_coarsened


def test_the_result_of_many_rows_stays_in_half_of_the_second_cache(make_kernel):
    small = replace(AVX512, caches=(32 << 10, 256 << 10, 32 << 20))
    (made,) = coarsen_programs(make_kernel(rows()), small)
    assert made.programs.factor == 16
    smaller = replace(AVX512, caches=(32 << 10, 64 << 10, 32 << 20))
    (made,) = coarsen_programs(make_kernel(rows()), smaller)
    assert made.programs.factor == 4


def strip(size, end):
    """A product for tiles whose programs along the second axis differ in columns."""
    attributes = f"{{masked = false, shape = [64, {size}]}}"
    return f"""
        %zero: i64 = constant {{value = 0}} %one: i64 = constant {{value = 1}} %far: i64 = constant {{value = 4096}}
        %ph: ptr<bf16> = array_ptr %half %po: ptr<f32> = array_ptr %out
        {place(1, 64)}
        %pid0: i32 = program_id {{axis = 0}}
        %high: i64 = constant {{value = 32}}
        %number0: i64 = cast %pid0 {{dtype = i64}}
        %row: i64 = mul %number0, %high
        %left: tile<32x64xbf16> = tile_load %ph, %row, %zero, %far, %one, %far, %far {{
          masked = false, shape = [32, 64]}}
        {end[0]}
        %right: tile<64x{size}xbf16> = tile_load %ph, %zero, %at, %far, %one, %far, {end[1]} {attributes}
        %result: tile<32x{size}xf32> = dot %left, %right
        {end[2]}
        tile_store %po, %row, %at, %far, %one, %far, {end[3]}, %result {{masked = false, shape = [32, {size}]}}
    """


def coarsen(function: Function, target: TargetFacts) -> list[Function]:
    return coarsen_strips(coarsen_programs(function, target), function, target)


def test_strips_of_columns_where_one_instruction_multiplies_tiles(make_kernel):
    function = make_kernel(strip(64, ("", "%far", "", "%far")))
    wide, single = coarsen(function, AMX)
    assert (wide.programs, single.programs) == (ProgramMap(second_factor=8), ProgramMap())
    coarse = strip(512, (end(900, "%far", 1), "%903", end(910, "%far", 1), "%913"))
    assert body_of(wide) == body_of(make_kernel(coarse))
    assert body_of(single) == body_of(function)
    assert coarsen(function, AVX512) == [function]
