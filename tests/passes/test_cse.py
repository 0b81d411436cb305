"""Common subexpressions."""

from pypto.passes.cse import cse


def test_pure_ops_are_computed_once(becomes):
    becomes(
        cse,
        """
        %1: i32 = add %n, %m
        %2: i32 = add %m, %n
        %3: i32 = sub %n, %m
        %4: i32 = sub %m, %n
        %5: i32 = mul %1, %2
        print_ %3, %4, %5 {hex = false, prefix = ""}
    """,
        """
        %1: i32 = add %n, %m
        %3: i32 = sub %n, %m
        %4: i32 = sub %m, %n
        %5: i32 = mul %1, %1
        print_ %3, %4, %5 {hex = false, prefix = ""}
    """,
    )


def test_attributes_and_types_tell_apart(becomes):
    text = """
        %1: f32 = constant {value = 0.0}
        %2: f32 = constant {value = -0.0}
        %3: f64 = constant {value = 0.0}
        %4: i32 = constant {value = 1}
        %5: i1 = constant {value = true}
        %6: i64 = cast %n {dtype = i64}
        %7: f32 = cast %n {dtype = f32}
    """
    becomes(cse, text, text)


def test_loads_are_computed_again(becomes):
    loads = "%p: ptr<f32> = array_ptr %x %1: f32 = load %p store %p, %f %2: f32 = load %p"
    text = f'{loads} print_ %1, %2 {{hex = false, prefix = ""}}'
    becomes(cse, text, text)


def test_regions_see_what_is_outside_but_not_each_other(becomes):
    becomes(
        cse,
        """
        %1: i32 = add %n, %m
        %2: i32 = if %b {
          %3: i32 = add %n, %m
          %4: i32 = mul %3, %n
          yield %4
        } {
          %5: i32 = mul %1, %n
          yield %5
        }
        %6: i32 = mul %1, %n
        print_ %2, %6 {hex = false, prefix = ""}
    """,
        """
        %1: i32 = add %n, %m
        %2: i32 = if %b {
          %4: i32 = mul %1, %n
          yield %4
        } {
          %5: i32 = mul %1, %n
          yield %5
        }
        %6: i32 = mul %1, %n
        print_ %2, %6 {hex = false, prefix = ""}
    """,
    )
