"""Tile functions in C++: a text is parsed, and interpreted with the classes of ``tracing``."""
