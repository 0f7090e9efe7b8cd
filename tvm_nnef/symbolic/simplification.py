"""Simplification of expressions with symbols by TVM.

Input: integer expressions and conditions. Output: simpler ones. A symbol is a dimension known only
at run time: never negative, and no larger than any array. A model repeats the same questions, so
answers are cached by the structure of the expression. TVM is imported at the first question.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tvm.ir import PrimExpr

_LARGEST = 1 << 40
"""A bound for symbols that have none: no array has a longer dimension."""

_REMEMBERED = 1 << 14
"""Upper limit of the answers of each kind in the cache."""


def wide(size: int | PrimExpr) -> Any:
    """Return a dimension as a TVM expression of type int64."""
    if isinstance(size, int):
        from tvm import tirx

        return tirx.IntImm("int64", size)
    return size if str(size.ty) == "int64" else size.astype("int64")


def simplified(expression: PrimExpr) -> int | PrimExpr:
    """Return an integer expression in its simplest form, a number if it has no symbols."""
    result: int | PrimExpr = _simplified(_key(expression))
    return result


def decided(condition: PrimExpr) -> bool | PrimExpr:
    """Return whether a condition holds for all symbols or for none; else its simplest form."""
    result: bool | PrimExpr = _decided(_key(condition))
    return result


def decided_within(condition: PrimExpr, bounds: Mapping[str, int | None]) -> bool | None:
    """Return whether a condition holds for all symbols up to their bounds, or for none; else
    None.
    """
    result: bool | None = _decided_within(_key(condition), tuple(bounds.items()))
    return result


def is_zero(expression: PrimExpr) -> bool:
    """Whether an integer expression is certainly 0."""
    result: bool = _is_zero(_key(expression))
    return result


def analyzer(
    *expressions: Any,
    bounds: Mapping[str, int] | None = None,
    least: Mapping[str, int] | None = None,
) -> Any:
    """Return TVM's analyzer, which knows the range of every symbol of the expressions."""
    from tvm import tirx
    from tvm.ir import Range
    from tvm.sym import Analyzer

    result = Analyzer()
    for expression in expressions:
        for variable in tirx.analysis.undefined_vars(expression):
            most = (bounds or {}).get(variable.name, _LARGEST)
            dtype = str(variable.ty)
            if not dtype.startswith(("int", "uint")):
                continue
            # TVM cannot combine ends of another dtype with the variable.
            last = min(most + 1, int(tirx.max_value(dtype).value))
            first = (least or {}).get(variable.name, 0)
            result.bind(variable, Range(tirx.IntImm(dtype, first), tirx.IntImm(dtype, last)))
    return result


def _key(expression: Any) -> Any:
    """Return the expression as a key: equal for the same structure over the same symbols."""
    from tvm_ffi import StructuralKey

    return StructuralKey(expression)


@functools.lru_cache(_REMEMBERED)
def _simplified(key: Any) -> Any:
    simple = analyzer(key.key).simplify(key.key)
    value = getattr(simple, "value", None)
    return value if isinstance(value, int) else simple


@functools.lru_cache(_REMEMBERED)
def _decided(key: Any) -> Any:
    from tvm import tirx

    known = analyzer(key.key)
    simple = known.simplify(key.key)
    if isinstance(simple, tirx.IntImm):
        return bool(simple.value)
    return False if known.can_prove(tirx.Not(simple)) else simple


@functools.lru_cache(_REMEMBERED)
def _is_zero(key: Any) -> bool:
    return bool(analyzer(key.key).can_prove_equal(key.key, 0))


@functools.lru_cache(_REMEMBERED)
def _decided_within(key: Any, bounds: tuple[tuple[str, int | None], ...]) -> bool | None:
    from tvm import tirx

    limits = {name: bound for name, bound in bounds if bound is not None}
    known = analyzer(key.key, bounds=limits)
    if known.can_prove(key.key):
        return True
    return False if known.can_prove(tirx.Not(key.key)) else None
