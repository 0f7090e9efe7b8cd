"""Element arithmetic that TVM must neither rearrange nor take for exact."""
