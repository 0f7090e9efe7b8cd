"""NNEF 2 (SkriptND) models on Apache TVM."""
