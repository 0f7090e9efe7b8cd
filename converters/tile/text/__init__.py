"""Tile functions in C++: parsing, and interpretation with the classes of ``tracing``."""
