"""Passes after lowering (vector functions, special instructions, checks), and functions of CUDA."""
