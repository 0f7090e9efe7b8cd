"""The NumPy evaluator of Graphs; small, and correct rather than fast.

Input: a Graph and arrays. Output: arrays. The evaluator is imported when it is first used; programs
that run a library only check inputs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tvm_nnef.reference.graphs import evaluate

__all__ = ["evaluate"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'tvm_nnef.reference' has no attribute '{name}'")
    from tvm_nnef.reference import graphs

    return getattr(graphs, name)
