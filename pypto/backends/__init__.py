"""Backends: what makes machine code of Tile IR, one folder each.

`base` says what a backend is, `plugin` how it opens devices, `registry` finds it; `findings` and `sites` are what its
explanations and profiles speak of. `llvm` writes LLVM IR, for any backend that hands it to LLVM. `cpu` and `ascend`
come with pypto and know nothing of each other.
"""
