"""Passes after lowering: vector functions, special instructions, checks; functions of CUDA."""
