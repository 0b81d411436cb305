"""The algorithms of the package, one a file; each has an `ALGORITHM`."""
