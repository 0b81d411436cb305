"""Assertions of checked kernels: about numbers, and about index arithmetic in 32 bits."""

from pypto.passes.guards import guard


def test_an_assertion_about_a_tile_becomes_one_about_a_number(becomes):
    becomes(
        guard,
        """
        %t: tile<4xi32> = arange {end = 4, start = 0}
        %z: tile<4xi32> = broadcast_to %n {shape = [4]}
        %s: tile<4xi1> = lt %t, %z
        assert_ %s {message = "small", wraps = ""}
    """,
        """
        %t: tile<4xi32> = arange {end = 4, start = 0}
        %z: tile<4xi32> = broadcast_to %n {shape = [4]}
        %s: tile<4xi1> = lt %t, %z
        %1: tile<4xi32> = cast %s {dtype = i32}
        %2: i32 = min %1 {axes = [0], keep_dims = false}
        %3: i32 = constant {value = 0}
        %4: i1 = ne %2, %3
        assert_ %4 {message = "small", wraps = ""}
    """,
    )


def test_a_product_behind_a_quotient_is_asked_whether_it_wraps(becomes):
    becomes(
        guard,
        """
        %p: ptr<f32> = array_ptr %x
        %1: i32 = mul %n, %m
        %2: i32 = floordiv %1, %m
        %3: i64 = cast %2 {dtype = i64}
        %q: ptr<f32> = addptr %p, %3
        store %q, %f
    """,
        """
        %p: ptr<f32> = array_ptr %x
        %1: i32 = mul %n, %m
        %4: i64 = cast %n {dtype = i64}
        %5: i64 = cast %m {dtype = i64}
        %6: i64 = mul %4, %5
        %7: i64 = cast %1 {dtype = i64}
        %8: i1 = eq %6, %7
        assert_ %8 {message = "", wraps = "int32"}
        %2: i32 = floordiv %1, %m
        %3: i64 = cast %2 {dtype = i64}
        %q: ptr<f32> = addptr %p, %3
        store %q, %f
    """,
    )


def test_what_is_stored_or_computed_in_64_bits_is_not_asked(becomes):
    body = """
        %p: ptr<f32> = array_ptr %x
        %1: i32 = mul %n, %m
        %2: f32 = cast %1 {dtype = f32}
        %3: i64 = mul %k, %k
        %4: i64 = cast %u {dtype = i64}
        %5: i64 = add %3, %4
        %q: ptr<f32> = addptr %p, %5
        store %q, %2
    """
    becomes(guard, body, body)
