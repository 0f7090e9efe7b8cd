"""Arrays of dtypes that NumPy lacks: bfloat16, and numbers of a few bits."""
