"""The standard operators that ``lower/ops`` maps to Relax operators, by name.

They are named here as well, so that they can be listed without TVM.
"""

from __future__ import annotations

_BY_MODULE = {
    "layout": "broadcast cast concat constant flatten pad reshape shape slice split squeeze stack "
    "tensor tile transpose unflatten unsqueeze unstack",
    "linalg": "dot matmul matvec",
    "math": "abs acos acosh add and asin asinh atan ceil clamp cos cosh div eq exp floor ge gt "
    "iden le log lt max max_n mean_reduce min min_n mul ne neg or pow prod_n prod_reduce rcp rsqrt "
    "select sin sinh sqr sqrt sub sum_n sum_reduce tan",
    "nn": "avg_pool batch_norm conv deconv erf gelu linear max_pool prelu relu sigmoid silu "
    "softmax",
}

MAPPED_OPERATORS = frozenset(
    f"{module}.{name}" for module, names in _BY_MODULE.items() for name in names.split()
)
"""Their qualified names."""
