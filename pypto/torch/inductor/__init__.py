"""Code generation for torch's Inductor: it writes Triton for the CPU, and pypto compiles that. No C++ compiler runs.

Read `backend.py` first: what `torch.compile(model, backend="pypto-inductor")` calls, and the settings that hold while
a graph is compiled. `codegen.py` has Inductor's classes with what differs here, `load.py` makes kernels of Inductor's
text, `heuristics.py` chooses their blocks and grids, `templates.py` has products measured. `contract.py` names what of
Inductor's inside all this leans on.
"""
