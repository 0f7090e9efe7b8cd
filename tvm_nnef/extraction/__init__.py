"""Parts of a Graph as models: a Graph and names of tensors in, a program and metadata out."""
