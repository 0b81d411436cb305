"""Tile IR to Tile IR: what only the CPU needs; passes that other targets can use, too, are in `pypto/passes`.

In: optimised Tile IR. Out: Tile IR with the same meaning. `legalize` asks each library op for its form.
"""
