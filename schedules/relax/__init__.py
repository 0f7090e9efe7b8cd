"""Rewrites of Relax functions before and after legalization; no instruction set is named here."""
