"""PlaidML's Tile language to SkriptND: Python functions are traced, C++ functions are parsed.

Both forms build the same tensors (``tracing``), which ``conversion`` turns into operators.

==================  =================================================================
module              content
==================  =================================================================
``dimensions``      sizes: integer arithmetic on dimensions, and what holds for all sizes
``indices``         index expressions and constraints
``tracing``         tensors, contractions and element-wise operations as a function runs
``elimination``     bounds of index variables by Fourier-Motzkin elimination
``ranges``          the loops of a contraction, its guards and conditions
``formulas``        a contraction as the text of a SkriptND operator
``shapes``          shapes and dtypes of all tensors of a trace
``conversion``      a traced function as a graph of steps
``functions``       a Python function traced
``text``            functions in C++: grammar, parser, interpreter
``main``            ``convert``
==================  =================================================================
"""

from __future__ import annotations

from tvm_nnef.converters.tile.dimensions import TensorDim, TensorDims
from tvm_nnef.converters.tile.indices import TensorIndex, TensorIndexes
from tvm_nnef.converters.tile.main import convert
from tvm_nnef.converters.tile.tracing import (
    Tensor,
    TensorOutput,
    absolute,
    ceil,
    cos,
    exp,
    floor,
    log,
    pow,
    select,
    sigmoid,
    sin,
    sqrt,
    tan,
    tanh,
)

TensorIndices = TensorIndexes

__all__ = [
    "Tensor",
    "TensorDim",
    "TensorDims",
    "TensorIndex",
    "TensorIndexes",
    "TensorIndices",
    "TensorOutput",
    "absolute",
    "ceil",
    "convert",
    "cos",
    "exp",
    "floor",
    "log",
    "pow",
    "select",
    "sigmoid",
    "sin",
    "sqrt",
    "tan",
    "tanh",
]
