"""Schedule strategies for GPUs.

Input: kernels and a machine model. Output: loops over blocks and threads.
"""
