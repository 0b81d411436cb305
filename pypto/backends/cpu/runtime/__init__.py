"""Running compiled kernels: LLVM's JIT, the thread pool, and native launches.

In: LLVM IR text or a cached object. Out: a callable. Read `engine`, `elf` (objects without LLVM), `pool`, then
`launcher`; `crash` names the kernel in which a process dies, `aot` makes objects that need no Python.
"""
