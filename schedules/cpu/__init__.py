"""Schedule strategies for CPUs.

Input: kernels and a machine model. Output: loops in vectors and on threads.
"""
