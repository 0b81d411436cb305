"""Code generation for torch's Inductor: it writes Triton for the CPU, and pypto compiles that. No C++ compiler runs.

Read `backend` first: what `torch.compile(model, backend="pypto-inductor")` calls, and the settings that hold while
a graph is compiled. `codegen` has Inductor's classes with what differs here, `load` makes kernels of Inductor's
text, `heuristics` chooses their blocks and grids, `templates` has products measured. `contract` names what of
Inductor's inside all this leans on.

Beside them: `ahead`, `jobs` and `worker` (compilation in other processes), `cpp` (the C++ wrapper), `collected`,
`origins`, `strides`, `tilings`.
"""
