"""What a trace does where something asks an array for its value.

`branches` traces a function once for each way through its conditions; `exchange` hands arrays to other libraries.
"""
