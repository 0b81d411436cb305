"""Helpers of tests that Triton ships: its own suite, and tests written like it, import them from the package.

So they cannot live among our tests. `internal_testing` is `triton._internal_testing`, and `filecheck` is
`triton._filecheck`.
"""
