"""Strategies for CPUs."""
