"""Operators without a body: how each is lowered, by its qualified name.

A table like those of ``lower/ops``, asked on every route, as there is no formula to fall back to.
"""

from __future__ import annotations

from collections.abc import Mapping

from tvm_nnef.lower.invocation import LoweringFunction

INTRINSICS: Mapping[str, LoweringFunction] = {}
