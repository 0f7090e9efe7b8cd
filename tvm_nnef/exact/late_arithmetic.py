"""Arithmetic that TVM must not change, as calls until after its last simplification.

Input: TIR operands of one dtype, or a PrimFunc whose loops are lowered. Output: a call, or the
PrimFunc without such calls.

A division that never traps repeats its operands, and TVM repeats them again when it lowers it: for
divisions nested in divisors this grows without limit. TVM's simplifier also takes too long for
nested choices: it simplifies each arm once more for each condition around it. A call contains each
operand once. A ``Let`` would not do: copies of a loop give its variable several values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm
from tvm import tirx
from tvm.ir import Call

from tvm_nnef.exact.functions import select
from tvm_nnef.exact.integers import DIVISIONS, QUOTIENTS
from tvm_nnef.tvm_support import traversal
from tvm_nnef.tvm_support.compat import PrimExpression, PrimFunction, dtype_of, with_mapped_body

_SHORT = 32
"""Upper limit of the nodes of an operand that is repeated."""

_FEW_CHOICES = 10
"""Upper limit of the choices in both arms of one that TVM simplifies in acceptable time
(measured).
"""

_CHOICE = "choice"

COMPARISONS = {tirx.LT: "lt", tirx.LE: "le", tirx.GT: "gt", tirx.GE: "ge", tirx.EQ: "eq"}
ARITHMETIC = {tirx.Add: "add", tirx.Sub: "sub", tirx.Mul: "mul"}
_OF_NODES: Mapping[type[tirx.BinaryOpExpr], str] = {**ARITHMETIC, **COMPARISONS}
"""Functions of vectors and scalars, by the class of nodes that they are."""


def opaque(operation: Any) -> PrimExpression:
    """Return a sum, difference, product or comparison as a call."""
    name = f"tirx.nnef_{_OF_NODES[type(operation)]}"
    return tirx.call_intrin(operation.ty, name, operation.a, operation.b)


def with_plain_arithmetic(function: PrimFunction) -> PrimFunction:
    """Return the function without the calls of :func:`opaque`, as strategies read it."""

    def plain(call: Call) -> PrimExpression:
        return _arithmetic(call) if _name(call) in _NODES else call

    return with_mapped_body(function, (Call, plain))


def division(
    function: str, x: PrimExpression, y: PrimExpression, *, is_index: bool = False
) -> PrimExpression:
    """Return a division by its name in ``graph.formula``, as a call if an operand is long.

    Strategies analyze an index, unless its divisor is long.
    """
    if not (_is_long(y) or (_is_long(x) and not is_index)):
        return DIVISIONS[function](x, y)
    return tirx.call_intrin(dtype_of(x), f"tirx.nnef_{function}", x, y)


def choice(
    condition: PrimExpression, consequent: PrimExpression, alternative: PrimExpression
) -> PrimExpression:
    """Return one of two values, both of which may be evaluated; ints with many choices as a
    call.
    """
    dtype = dtype_of(consequent)
    others: list[Any] = []
    if dtype in ("int32", "int64"):
        for operand in (consequent, alternative):
            traversal.walk(operand, (tirx.Select, others.append))
    if len(others) <= _FEW_CHOICES:
        return select(condition, consequent, alternative)
    return tirx.call_intrin(dtype, f"tirx.nnef_{_CHOICE}", condition, consequent, alternative)


def _is_long(x: PrimExpression) -> bool:
    """Whether an operand has many nodes, or divisions, which TVM would repeat."""
    all_nodes: list[Any] = []
    traversal.walk(x, (tirx.Expr, all_nodes.append))
    return len(all_nodes) > _SHORT or any(
        isinstance(node, QUOTIENTS) and not isinstance(node.b, tirx.IntImm) for node in all_nodes
    )


def with_late_arithmetic(function: PrimFunction) -> PrimFunction:
    """Return the function with arithmetic instead of calls; a ``Let`` names each operand."""
    return with_mapped_body(function, (Call, _arithmetic))


def has_late_divisions(function: PrimFunction) -> bool:
    """Whether a function has calls of divisions and choices, whose operands get names."""
    late: list[Any] = []
    traversal.walk(function.body, (Call, lambda call: late.append(_name(call) in _FUNCTIONS)))
    return any(late)


def _name(call: Call) -> str:
    return str(getattr(call.op, "name", ""))


def _arithmetic(call: PrimExpression) -> PrimExpression:
    assert isinstance(call, Call)
    name = _name(call)
    if name in _NODES:
        kind, (x, y) = _NODES[name], call.args
        if kind in ARITHMETIC:  # TVM may have narrowed an operand.
            x, y = (each if each.ty == call.ty else tirx.Cast(call.ty, each) for each in (x, y))
        operation: PrimExpression = kind(x, y)
        return operation
    if name not in _FUNCTIONS:
        return call
    # TVM may have narrowed the call, but not its operands; or one of them.
    *condition, x, y = call.args
    wide = dtype_of(x + y)
    left, right = (tirx.Var(text, wide) for text in ("left", "right"))
    if condition:
        # A buffer holds what a ``Let`` names, and those of bools are special.
        test = tirx.Var("test", "int8")
        made: PrimExpression = tirx.Select(test != tirx.const(0, "int8"), left, right)
        made = tirx.Let(test, tirx.Cast("int8", *condition), made)
    else:
        made = DIVISIONS[_FUNCTIONS[name]](left, right)
    named = tirx.Let(right, y.astype(wide), made.astype(dtype_of(call)))
    return tirx.Let(left, x.astype(wide), named)


def _registered(function: str) -> str:
    """Return the name of the operator of TIR for a function, which has no side effects."""
    name = f"tirx.nnef_{function}"
    tvm.get_global_func("ir.RegisterOp")(name, "A function that never traps.")
    tvm.ir.register_op_attr(name, "TScriptPrinterName", f"nnef_{function}")
    tvm.ir.register_op_attr(name, "TCallEffectKind", int(tirx.CallEffectKind.Pure.value))
    tvm.ir.register_op_attr(name, "default.FLowerIntrinsic", _arithmetic)
    if function in _OF_NODES.values():
        tvm.ir.register_op_attr(name, "TVectorizable", True)
    return name


_FUNCTIONS = {_registered(function): function for function in (*DIVISIONS, _CHOICE)}
_NODES = {_registered(function): kind for kind, function in _OF_NODES.items()}
