"""A vocabulary for kernels of ordered loops, which no formula describes and no schedule looks into.

Input: extents and functions that make statements of loop variables. Output: TIR statements, and a
PrimFunc of them. Does not touch Relax.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from tvm import s_tir, tirx

from tvm_nnef.tvm_support.compat import PrimExpression, PrimFunction, dtype_of, opaque_function
from tvm_nnef.tvm_support.function_attributes import OP_PATTERN, FusionPattern

Buffer: TypeAlias = Any
Statement: TypeAlias = Any

Shape: TypeAlias = "Sequence[int | None]"
"""Dimensions of a parameter, where None stands for any."""

INDEX = "int64"
"""The dtype of indices and counts."""


def buffer(name: str, shape: Sequence[Any], dtype: str) -> Buffer:
    """A parameter; None in its shape stands for any dimension."""
    extents = [
        tirx.Var(f"{name}_extent{number}", INDEX) if extent is None else extent
        for number, extent in enumerate(shape)
    ]
    return tirx.decl_buffer(extents, dtype, name)


def wide(number: int) -> PrimExpression:
    """A number as an index."""
    return tirx.const(number, INDEX)


def sequence(*statements: Statement) -> Statement:
    """Statements one after the other."""
    return tirx.stmt_seq(*statements)


def store(target: Buffer, value: PrimExpression, *positions: Any) -> Statement:
    """A value put into a buffer."""
    return tirx.BufferStore(target, value, list(positions))


def bound(name: str, value: PrimExpression) -> tuple[PrimExpression, Statement]:
    """Return a variable, and the statement that binds a value to it for later statements."""
    variable = tirx.Var(name, dtype_of(value))
    return variable, tirx.Bind(variable, value)


def when(condition: PrimExpression, *statements: Statement) -> Statement:
    """Statements that run where a condition holds."""
    return tirx.IfThenElse(condition, sequence(*statements), None)


def repeated(condition: PrimExpression, *statements: Statement) -> Statement:
    """Statements that run again and again as long as a condition holds."""
    return tirx.While(condition, sequence(*statements))


def loop(extent: Any, body: Callable[[PrimExpression], Statement]) -> Statement:
    """A loop over the numbers from 0 up to an extent."""
    bound = wide(extent) if isinstance(extent, int) else extent
    variable = tirx.Var("i", INDEX)
    return tirx.For(variable, wide(0), bound, tirx.ForKind.SERIAL, body(variable))


def nest(
    shape: Sequence[Any],
    body: Callable[[Sequence[PrimExpression]], Statement],
    *,
    parallel: bool = False,
) -> Statement:
    """Loops over all positions of a shape, in row-major order.

    If ``parallel``, all steps are independent, and the outermost long loop is parallel.
    """
    long = next((number for number, extent in enumerate(shape) if not _is_one(extent)), 0)

    def inner(positions: tuple[PrimExpression, ...]) -> Statement:
        depth = len(positions)
        if depth == len(shape):
            return body(positions)
        made = loop(shape[depth], lambda position: inner((*positions, position)))
        if not parallel:
            return made
        kind = tirx.ForKind.PARALLEL if depth == long else made.kind
        return tirx.For(made.loop_var, made.min, made.extent, kind, made.body)

    return inner(())


def _is_one(extent: Any) -> bool:
    return isinstance(extent, (int, tirx.IntImm)) and int(extent) == 1


def allocating(
    kinds: Sequence[tuple[Sequence[Any], str]], body: Callable[..., Statement]
) -> Statement:
    """A statement with its own buffers, of shapes and dtypes; single numbers in registers."""
    buffers = [
        tirx.decl_buffer(
            shape, dtype, f"own{number}", scope="local" if all(map(_is_one, shape)) else "global"
        )
        for number, (shape, dtype) in enumerate(kinds)
    ]
    block = s_tir.SBlock([], [], [], "own", body(*buffers), alloc_buffers=buffers)
    return s_tir.SBlockRealize([], True, block)


def function(
    name: str, parameters: Sequence[Buffer], written: int, body: Statement
) -> PrimFunction:
    """A function of buffers, the last ``written`` of which it writes; it is fused with nothing."""
    outputs = parameters[len(parameters) - written :]
    made = opaque_function(name, parameters, outputs, [], body)
    return made.with_attr({OP_PATTERN: int(FusionPattern.OPAQUE)})
