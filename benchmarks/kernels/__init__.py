"""The kernels of the rows, written as a user would write them: the language and nothing else.

Beside each kernel stands the function that launches it on whole arrays. Sizes of blocks that a suite varies are
arguments of that function.
"""
