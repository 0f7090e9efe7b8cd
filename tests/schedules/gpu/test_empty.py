"""Tensors without elements on a GPU, whose sizes are static or dynamic: what NumPy computes.

The simulated GPU raises an exception for a launch without blocks, as a driver does.
"""
