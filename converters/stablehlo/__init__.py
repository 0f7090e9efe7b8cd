"""Conversion of StableHLO: ``convert`` turns a module that JAX exports or lowers into a model.

It needs ``jax``, which the package's extra of that name installs.
"""

from __future__ import annotations

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.unconvertible import Unconvertible
from tvm_nnef.converters.stablehlo.main import convert
from tvm_nnef.converters.stablehlo.operation import Operation

__all__ = ["Builder", "Operation", "Unconvertible", "convert"]
