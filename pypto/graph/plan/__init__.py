"""Plans: the steps of a graph over one arena, and how they run.

Read `plan`, `pipeline`, `planning`, `schedule`, `step_order`, `horizontal_fusion`, `in_place` (what a plan is);
`execution_context`, `fast_path`, `outputs`, `argument_flattening`, `ahead` (how it runs); `plan_cache`, `plan_text`,
`store`, `stored_kernel` (how it is kept).
"""
