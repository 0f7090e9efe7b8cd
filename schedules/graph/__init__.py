"""Rewrites of Relax functions in front of legalization; they know no target's instructions."""
