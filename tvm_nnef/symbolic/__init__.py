"""Arithmetic on dimensions: an ``int`` if static, a TVM integer expression if dynamic."""
