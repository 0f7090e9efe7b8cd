"""What kernels compute, whatever the machine: stages, index maps, guards, reductions, windows."""
