"""Divisions of long ints: calls, which become arithmetic just before TVM lowers intrinsics.

Input: two TIR ints of one dtype, or a PrimFunc whose loops are lowered. Output: a call, or the
PrimFunc without such calls. A division that never traps has its operands several times, and so
does TVM when it lowers it: of divisions nested in divisors nothing ends. A call names each once. A
``Let`` would not do before: copies of a loop give its variable several values.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import tirx
from tvm.ir import Call

from tvm_nnef.lower.integers import DIVISIONS
from tvm_nnef.tvm_support import traversal
from tvm_nnef.tvm_support.compat import PrimExpression, PrimFunction, dtype_of, with_mapped_body

_SHORT = 32
"""The most nodes of an operand that is written several times."""


def _registered(function: str) -> str:
    """The name of the operator of TIR for a division, which has no side effects."""
    name = f"tirx.nnef_{function}"
    tvm.get_global_func("ir.RegisterOp")(name, "An int division that never traps.")
    tvm.ir.register_op_attr(name, "TCallEffectKind", int(tirx.CallEffectKind.Pure.value))
    return name


_FUNCTIONS = {_registered(function): function for function in DIVISIONS}


def division(function: str, x: PrimExpression, y: PrimExpression) -> PrimExpression:
    """A division by its name in ``graph.formula``, as a call if an operand is long."""
    if not (_is_long(x) or _is_long(y)):
        return DIVISIONS[function](x, y)
    return tirx.call_intrin(dtype_of(x), f"tirx.nnef_{function}", x, y)


def _is_long(x: PrimExpression) -> bool:
    found: list[Any] = []
    traversal.walk(x, (tirx.Expr, found.append))
    return len(found) > _SHORT


def with_divisions(function: PrimFunction) -> PrimFunction:
    """The function with arithmetic in place of calls; a ``Let`` names each operand."""
    return with_mapped_body(function, (Call, _arithmetic))


def _arithmetic(call: PrimExpression) -> PrimExpression:
    assert isinstance(call, Call)
    name = _FUNCTIONS.get(str(getattr(call.op, "name", "")))
    if name is None:
        return call
    # TVM may have narrowed the call, but not its operands; or one of them.
    x, y = call.args
    wide = dtype_of(x + y)
    left, right = (tirx.Var(text, wide) for text in ("left", "right"))
    made = DIVISIONS[name](left, right).astype(dtype_of(call))
    return tirx.Let(left, x.astype(wide), tirx.Let(right, y.astype(wide), made))
