"""Plans: the steps of a graph over one arena, and how they run.

Read `plan`, `pipeline`, `schedule` (what a plan is); `execution_context`, `outputs`, `fast_path`, `bound_call`,
`on_device`, `foreign_call`, `foreign_path` (how it runs); `plan_cache` (the plans of a function); `plan_text`, `store`,
`stored_kernel` (how it is kept).
"""
