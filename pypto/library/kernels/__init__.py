"""Kernels of the library, written in the language, and beside each the function that launches it on arrays."""
