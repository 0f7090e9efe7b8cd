"""What users call; ``tvm_nnef`` has the names."""
