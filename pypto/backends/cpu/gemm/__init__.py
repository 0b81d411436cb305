"""Matrix products: one `dot` from Loop IR to LLVM IR text.

In: a `dot` with its operands and what follows it. Out: calls of micro-kernels over packed panels.
Read `lowering` (the entry), `ir` (a product in Loop IR), `blocking` (MR, NR, KC and the rest in one record),
`operands` and `emitted_operands` (addresses and sizes), `macro_kernel` (loops over blocks), `micro_kernel` (registers),
`packing` and `panel_packing` (panels); then the variants: `amx`, `bf16_split`, `skinny` (few rows), `column_major_a`
and `conv_window` (convolutions), `panel_reuse` (panels shared by programs), `epilogue` (stores fused to the product).
"""
