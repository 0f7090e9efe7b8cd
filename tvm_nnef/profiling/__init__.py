"""Profiling: the run time of each operation of a model, which passes and kernels keep track of."""
