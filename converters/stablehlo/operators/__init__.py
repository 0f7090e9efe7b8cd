"""Converters of StableHLO operations, by subject."""
