"""The CPU backend: Tile IR to machine code through LLVM.

In: a typed Tile IR function and a `CpuTarget` (`target`). Out: an `Artifact`, object code for a range of programs.
Read in this order: `plugin`, `host`, `backend`, `pipeline` (the pass list, with `techniques`), `tile` (Tile IR to Tile
IR), `loopir` (fused loop nests), `codegen` (LLVM IR text), `gemm` and `library` (ops with code of their own),
`peepholes` (instructions of x86), `instrument` (checks, timing, prints), `runtime` (LLVM, threads, launches),
`explain`.
"""
