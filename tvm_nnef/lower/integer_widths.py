"""The dtypes in which the ints of a formula are computed, and which of them TVM may rearrange.

Input: scalars of a statement, and the expressions that were made of them. Output: the expressions
with as many bits as they need, and hidden from TVM where they may wrap around.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tvm import tirx

from tvm_nnef.exact.functions import cast
from tvm_nnef.exact.integers import has_product, opaque, sealed, with_sealed_divisors, wrapped
from tvm_nnef.graph.formula import Constant, Index, Scalar, ScalarType, Statement, has_index, terms
from tvm_nnef.graph.intervals import Ranges, fits, ranges_of
from tvm_nnef.symbolic import dimensions
from tvm_nnef.symbolic.dimensions import Dimension
from tvm_nnef.tir.literals import INDEX_TYPE, literal
from tvm_nnef.tvm_support.compat import PrimExpression, dtype_of

ComputeTypes: TypeAlias = Mapping[ScalarType, str]
"""The dtypes in which a formula computes real, int and bool (``graph.machine_types``)."""


@dataclass(frozen=True)
class IntegerWidths:
    """Gives the ints of one statement the bits that they need.

    Arithmetic on indices is that of 64 bits, and arithmetic on elements of int tensors that of
    their compute type; where both meet, of 64 bits. What provably fits is computed in 32 bits,
    unless ``wide`` asks for indices as the loops have them. ``bounds`` has the largest value of
    each symbol.
    """

    types: ComputeTypes
    statement: Statement
    bounds: Mapping[str, int]
    wide: bool

    @functools.cached_property
    def ranges(self) -> Ranges:
        """Return the intervals of the indices and locals of the statement."""
        return ranges_of(self.statement)

    def constant_type(self, constant: Constant) -> str:
        """Return the dtype of a constant."""
        is_infinite = isinstance(constant.value, float) and math.isinf(constant.value)
        if constant.type != "int" or is_infinite:
            return self.types[constant.type]
        if self.wide:
            return INDEX_TYPE
        symbolic = dimensions.is_symbolic(constant.value)
        return self.index_type(constant) if symbolic else self.types["int"]

    def index_type(self, scalar: Scalar) -> str:
        """Return the dtype of an index or a dimension."""
        narrow = not self.wide and fits(scalar, self.ranges, self.bounds)
        return self.types["int"] if narrow else INDEX_TYPE

    def is_small(self, scalar: Scalar) -> bool:
        """Whether a scalar is a constant; one that is made of symbols must fit into 32 bits."""
        return isinstance(scalar, Constant) and (
            not dimensions.is_symbolic(scalar.value) or fits(scalar, self.ranges, self.bounds)
        )

    def converted(self, scalar: Scalar, value: PrimExpression, dtype: str) -> PrimExpression:
        """Return a value of a scalar in another dtype; a finite constant is made in it."""
        match scalar:
            case Constant(_, number) if not (isinstance(number, float) and math.isinf(number)):
                return number_of(number, dtype)
        return cast(self.wrapped(scalar, value) if dtype == INDEX_TYPE else value, dtype)

    def widened(self, result: Scalar, scalar: Scalar, value: PrimExpression) -> PrimExpression:
        """Return an operand of arithmetic on indices in 64 bits, unless the result fits into 32."""
        is_wide = dtype_of(value) != "int32" or not has_index(result, self.statement)
        if is_wide or fits(result, self.ranges, self.bounds):
            return value
        return cast(self.wrapped(scalar, value), INDEX_TYPE)

    def wrapped(self, scalar: Scalar, value: PrimExpression, bits: int = 32) -> PrimExpression:
        """Return a value in the range of its dtype, which sums and products do not need."""
        return value if self.is_exact(scalar, value, bits) else wrapped(value)

    def term(self, scalar: Scalar, value: PrimExpression) -> PrimExpression:
        """Return an operand of a sum; TVM makes ``min(y - x, 0)`` of ``min(x, y) - x``."""
        limited = isinstance(value, tirx.Min | tirx.Max)
        return sealed(value) if limited and not self.is_exact(scalar, value) else value

    def is_exact(self, scalar: Scalar, value: PrimExpression, bits: int = 32) -> bool:
        """Whether a value fits into its bits; indices, and elements that meet one, fit into 64."""
        if dtype_of(value) == "int32":
            return fits(scalar, self.ranges, self.bounds, bits=bits)
        kinds = {type(term) for term in terms(scalar, self.statement)}
        return kinds <= {Index, Constant} or (Index in kinds and self.types["int"] == "int32")

    def product_wrapped(self, scalar: Scalar, value: PrimExpression) -> PrimExpression:
        """Return a value that TVM widens without a cast, as it is part of an index.

        A sum that wraps around is outside of the tensor either way.
        """
        return self.wrapped(scalar, value) if has_product(value) else value


def number_of(value: float | Dimension, dtype: str) -> PrimExpression:
    """Return a constant of a formula, which may be computed from symbols."""
    return opaque(with_sealed_divisors(literal(value, dtype)))
