"""Instrumentation of kernels: bounds checks of checked mode, timing of profiles, prints.

`hooks` says where code may be inserted; a plain kernel gets none. `bounds` emits the checks, `access_ranges` drops
those that ranges decide, `timing` reads the clock around each item of Loop IR, `printing` lowers prints to stores.
"""
