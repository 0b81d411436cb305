"""Complex arrays in traced functions: pairs of real arrays, which kernels compute with like with others.

`pairs` takes arrays apart and joins them, `formulas` has ufuncs on parts, `functions` other functions, `fourier` those
of `np.fft`, and `arrays` finds the right one, or makes a step of numpy.
"""
