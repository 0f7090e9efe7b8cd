"""The representation of a composed model: tensors, operations, formulas."""
