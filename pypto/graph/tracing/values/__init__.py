"""What a trace does where something asks an array for its value.

`joins` runs both sides of a branch and chooses for each variable; `branches` traces a function once for each way
through its other conditions; `exchange` hands arrays to other libraries.
"""
