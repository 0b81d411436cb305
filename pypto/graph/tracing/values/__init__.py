"""What a trace does where something asks an array for its value.

`joins` runs both sides of a branch and chooses for each variable; `branches` traces a function once for each way
through its other conditions; `exchange` hands arrays to other libraries; `refusals` are errors of the trace;
`storage` is the memory of traced arrays; `words` finds the meaning of torch's words.
"""
