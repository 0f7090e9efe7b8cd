"""StableHLO to SkriptND: ``convert`` turns what JAX exports or lowers into a model.

``jax`` is needed for it, the package's extra of that name.
"""

from __future__ import annotations

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.unconvertible import Unconvertible
from tvm_nnef.converters.stablehlo.main import convert
from tvm_nnef.converters.stablehlo.operation import Operation

__all__ = ["Builder", "Operation", "Unconvertible", "convert"]
