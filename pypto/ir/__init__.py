"""Tile IR: typed SSA with regions. This room knows no op by name."""
