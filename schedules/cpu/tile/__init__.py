"""Products and convolutions on CPUs: a tile of the result in registers."""
