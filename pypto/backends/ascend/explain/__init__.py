"""Explanations of the Ascend backend: the texts of its levels, its choices, pictures, and predicted times.

In: a prepared Tile IR function and an `AscendTarget`. Out: texts, findings and pictures. Nothing here takes part in a
compilation. Read in this order: `levels`, `passes` (the IR after each), `decisions` (with `remarks`), `prediction`,
`pictures`.
"""
