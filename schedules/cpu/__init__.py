"""Rules for CPUs: a PrimFunc in, a scheduled PrimFunc and the name of the rule out."""
