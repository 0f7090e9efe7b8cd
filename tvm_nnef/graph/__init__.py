"""The vocabulary between composing and executing a model: tensors, operations, formulas."""
