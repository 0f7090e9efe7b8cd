"""Measurement of the speed of kernels and whole models on this machine, and its tables."""
