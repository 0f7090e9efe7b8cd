"""Analyses of kernels for all machines: stages, index maps, guards, reductions, windows."""
