"""The CPU backend: Tile IR to machine code through LLVM.

In: a typed Tile IR function and a `CpuTarget`. Out: an `Artifact` whose object code runs a range of programs.
Read in this order: `backend`, `tile` (Tile IR to Tile IR), `loopir` (fused loop nests), `codegen` (LLVM IR text),
`gemm` and `library` (ops with code of their own), `llvm` (the text writer), `instrument` (checks and timing),
`runtime` (LLVM, threads, launches).
"""
