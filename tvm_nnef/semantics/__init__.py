"""Semantic checks (names, types, optionality and binding order), without any concrete value."""
