"""The CPU backend: Tile IR → Loop IR → LLVM IR → machine code."""
