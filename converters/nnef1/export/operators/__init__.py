"""Operators of SkriptND as operations of NNEF 1; each module has a ``TABLE`` of functions."""
