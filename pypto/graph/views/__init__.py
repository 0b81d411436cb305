"""Views of a plan show its decisions: pictures of its levels, a page, a card for notebooks, and the timeline of a run.

Read `diagram` and `drawing` (what a picture is), `tensor_graph`, `execution` and `arena` (what is drawn), `layers` and
`placement` (where), `svg` and `dot` (how), `page`, `measured` (a run of a plan), and `inspecting` (a kernel, level by
level), `shown` (what a plan shows of itself), `tensors`, `cards`, `source` (the user's lines) and `words` (names).
"""
