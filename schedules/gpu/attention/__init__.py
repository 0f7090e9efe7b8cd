"""Attention on GPUs, in one kernel."""
