"""How long a kernel takes on a chip: a model of its units, memories and cores. Nothing is run."""
