"""Backends: each turns Tile IR into something that runs. They know nothing of each other."""
