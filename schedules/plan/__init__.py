"""Plans of kernels, and what turns one into TIR."""
