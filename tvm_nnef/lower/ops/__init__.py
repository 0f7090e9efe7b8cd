"""Which Relax expression is the same thing as an operator: one table, by qualified name.

A mapping gets a resolved invocation and returns Relax expressions of exactly the Graph's shapes
and dtypes, or None to decline; the operator is then lowered from its own body. A mapping never
differs from the body in value, except by rounding.
"""

from __future__ import annotations

from collections.abc import Mapping

from tvm_nnef.lower.invocation import LoweringFunction
from tvm_nnef.lower.ops import layout, linalg, math, nn

MAPPINGS: Mapping[str, LoweringFunction] = {
    **layout.MAPPINGS,
    **math.MAPPINGS,
    **linalg.MAPPINGS,
    **nn.MAPPINGS,
}
