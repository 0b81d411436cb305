"""Toolchain drivers: from Ascend C to a binary, with errors at the user's line.

`toolchain` runs bisheng or ccec, `mixed_parts` writes the sources of a mixed kernel for older ones, and `rtc` calls the
run-time compiler of newer toolkits.
"""
