"""Toolkits: which compiler is there, how it is run, and its errors at the user's line.

`toolchain` runs bisheng or ccec, `rtc` the run-time compiler of newer toolkits.
"""
