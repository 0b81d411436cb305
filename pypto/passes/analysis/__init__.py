"""Analyses of Tile IR: they compute facts about a function and change nothing.

Numbers: `scalar_evolution`, `ranges`, `affine`, `dimensions`. Memory: `memory_effects`. Control flow: `carried` (values
of loops and branches), `waiting` (loops that wait for another program). Products: `dot_facts`.
"""
