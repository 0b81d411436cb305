"""The op table: one row per op, and what follows from a row. This room imports no backend."""
