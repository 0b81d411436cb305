"""Dead code."""

from pypto.passes.dce import dce

KEEP = '{hex = false, prefix = ""}'


def test_unused_pure_ops_and_loads(becomes):
    becomes(
        dce,
        """
        %p: ptr<f32> = array_ptr %x
        %1: f32 = load %p
        %2: f32 = neg %1
        store %p, %f
    """,
        "%p: ptr<f32> = array_ptr %x store %p, %f",
    )


def test_unused_results_of_if(becomes):
    becomes(
        dce,
        f"""
        %1: i32, %2: i32 = if %b {{
          %3: i32 = add %n, %m
          %4: i32 = mul %n, %m
          yield %3, %4
        }} {{
          yield %n, %m
        }}
        print_ %2 {KEEP}
    """,
        f"""
        %2: i32 = if %b {{
          %4: i32 = mul %n, %m
          yield %4
        }} {{
          yield %m
        }}
        print_ %2 {KEEP}
    """,
    )


def test_carried_values_that_only_feed_themselves(becomes):
    becomes(
        dce,
        f"""
        %1: i32, %2: i32, %3: i32 = for %n, %m, %n, %n, %m, %m {{ (%i: i32, %a: i32, %d: i32, %e: i32)
          %4: i32 = add %a, %i
          %5: i32 = add %d, %e
          yield %4, %5, %5
        }}
        print_ %1 {KEEP}
    """,
        f"""
        %1: i32 = for %n, %m, %n, %n {{ (%i: i32, %a: i32)
          %4: i32 = add %a, %i
          yield %4
        }}
        print_ %1 {KEEP}
    """,
    )


def test_a_carried_value_behind_another_stays(becomes):
    text = f"""
        %1: i32, %2: i32 = for %n, %m, %n, %n, %m {{ (%i: i32, %a: i32, %d: i32)
          yield %d, %i
        }}
        print_ %1 {KEEP}
    """
    becomes(dce, text, text)


def test_while_keeps_what_its_condition_needs(becomes):
    becomes(
        dce,
        f"""
        %1: i32, %2: i32, %3: i32 = while %n, %n, %n {{ (%a: i32, %d: i32, %e: i32)
          %4: i1 = lt %a, %m
          yield %4
        }} {{ (%g1: i32, %h1: i32, %i1: i32)
          %5: i32 = add %g1, %m
          %6: i32 = add %h1, %i1
          yield %5, %6, %i1
        }}
        %p: ptr<f32> = array_ptr %x
        print_ %3 {KEEP}
    """,
        f"""
        %1: i32, %3: i32 = while %n, %n {{ (%a: i32, %e: i32)
          %4: i1 = lt %a, %m
          yield %4
        }} {{ (%g1: i32, %i1: i32)
          %5: i32 = add %g1, %m
          yield %5, %i1
        }}
        print_ %3 {KEEP}
    """,
    )


def test_empty_control_flow(becomes):
    becomes(
        dce,
        """
        for %n, %m, %n { (%i: i32)
          if %b {
            %1: i32 = add %i, %n
            yield
          } {
            yield
          }
          yield
        }
        while { yield %b } { yield }
    """,
        "",
    )


def test_an_effect_keeps_the_control_flow_around_it(becomes):
    text = """
        %p: ptr<f32> = array_ptr %x
        for %n, %m, %n { (%i: i32)
          %1: i1 = lt %i, %m
          if %1 {
            store %p, %f
            yield
          } {
            yield
          }
          yield
        }
    """
    becomes(dce, text, text)
