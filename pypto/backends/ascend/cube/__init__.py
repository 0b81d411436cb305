"""The cube core: products of tiles, as instructions of Block IR."""
