"""Passes after lowering: vector functions, special instructions, registers, bounds checks."""
