"""Which kinds of models there are, how a file says which it is, and how each becomes a model."""
