"""The command line: `pypto` and `python -m pypto`.

Read `app`, `specs`, `grids` and `output`. Kernels: `compiling`, `inspecting`, `running`, `tuning`, `aot`, `projects`.
Models: `quantising`, `workloads`, `language_models`, `sentence_encoders`. Beside them: `library`, `caching`, `facts`,
`creating` (with `template`), `notebooks`.
"""
