"""The Ascend backend: Tile IR to Ascend C for Huawei's NPUs.

In: a typed Tile IR function and an `AscendTarget` (`target`). Out: a kernel's text, its binary and how to launch it.
Read `plugin`, `backend`, `pipeline` (the pass list, with `techniques`), `tile` (Tile IR to Tile IR), `vector` and
`cube` (lowering for each kind of core), `rules` (elementwise ops), `blockir` (the level below), `block` (its passes),
`emit` (Ascend C), `toolchain`, `timing`, `explain`. Imports go one way: `target` < `tile`; `target` < `blockir` <
`block`, `rules`; all of these < `vector` < `cube`; `blockir`, `block` < `emit`, `timing`.
"""
