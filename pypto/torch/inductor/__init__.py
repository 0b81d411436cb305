"""Code generation for torch's Inductor: it writes Triton for the CPU, which pypto compiles without a C++ compiler.

Read `backend` first: the function that `torch.compile(model, backend="pypto-inductor")` calls, and the settings during
a compilation. `codegen` overrides Inductor's classes, `load` makes kernels of Inductor's text (`generated`, and those
of users in `user_kernels`), `heuristics` chooses their blocks and grids, and `templates` measures products. `contract`
lists the internals of Inductor that are used.

Beside them: `ahead`, `jobs` and `worker` (compilation in other processes), `cpp` (the C++ wrapper), `collected`,
`origins`, `strides`, `tilings`.
"""
