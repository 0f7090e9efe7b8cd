"""Plans of kernels, and the functions that turn a plan into TIR."""
