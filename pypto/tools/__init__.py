"""Files made of kernels, for use without pypto."""
