"""A StableHLO module executed by XLA on the CPU, with the values between its operations.

A module and arrays by the names of its inputs in; arrays by the names of values out. Nothing is
converted, and nothing is compared here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.extend import backend
from jax.extend.mlir import refine_polymorphic_shapes
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from tvm_nnef.converters.common.types import Array
from tvm_nnef.converters.stablehlo.reading import HloModule, input_names, read, value_names
from tvm_nnef.diagnostics import error


@dataclass(frozen=True)
class HloExecution:
    """A StableHLO module that XLA executes."""

    module: HloModule
    makers: Mapping[str, tuple[str, str]]
    what: str = "StableHLO operation"

    @property
    def path(self) -> str:
        """The module's name in messages."""
        return self.module.path

    def execute(self, inputs: Mapping[str, Array], wanted: Collection[str]) -> dict[str, Array]:
        """The values that are wanted, by name. Raises NnefError where XLA fails."""
        raise NotImplementedError
