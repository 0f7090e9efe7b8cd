"""How fast things are: kernels and whole models timed on this machine, and put in tables."""
