"""The functions that users call; ``tvm_nnef`` has the names."""
