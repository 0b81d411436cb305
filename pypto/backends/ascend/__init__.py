"""Ascend: Tile IR to Block IR, and Block IR to Ascend C."""
