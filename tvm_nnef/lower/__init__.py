"""Graph in, Relax IRModule out; see ``lower/module.py``."""

from __future__ import annotations

from tvm_nnef.lower.defects import LoweringError
from tvm_nnef.lower.invocation import Invocation, Lowered, LoweringFunction
from tvm_nnef.lower.module import lower

__all__ = ["Invocation", "Lowered", "LoweringError", "LoweringFunction", "lower"]
