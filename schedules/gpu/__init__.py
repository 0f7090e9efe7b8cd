"""Schedule strategies for GPUs: kernels and a machine model in, loops of blocks and threads out."""
