"""Models in memory: a checked program, variables, metadata, and the options that go with them."""
