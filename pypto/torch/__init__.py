"""What only matters beside torch. Nothing here is loaded before torch is, and nobody needs to import it."""
