"""The NumPy evaluator: from a Graph and arrays to arrays; small, and right rather than fast."""

from tvm_nnef.reference.graphs import evaluate

__all__ = ["evaluate"]
