"""Converters: a foreign model in, a SkriptND model (syntax tree and tensors) out."""
