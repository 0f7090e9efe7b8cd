"""Arithmetic on extents: ``int`` in, ``int`` out, else a TVM integer expression.

The one place for symbolic arithmetic. TVM is imported only when a first symbol appears, so a
static model is parsed, checked and composed without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from tvm.ir import PrimExpr

Extent: TypeAlias = "int | PrimExpr"
