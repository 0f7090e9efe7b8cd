"""Modules that a model may import though the standard library lacks them: operators of XLA."""
