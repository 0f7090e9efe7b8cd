"""Expansion of ``@lower`` to a closed Formula (NNEF 2.0 draft, section 2.12).

Input: statements of an operator, and the environment of an invocation. Output: the formula: packs
are expanded, attributes and dimensions are numbers, loops that select a tensor from a pack are
unrolled. The arithmetic is not simplified, and statements are not reordered.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from tvm_nnef.composition import value_hints
from tvm_nnef.composition.access import index_rows, tensor_subscripts
from tvm_nnef.composition.evaluate import evaluate, known, subscripts
from tvm_nnef.composition.indexing import count
from tvm_nnef.composition.out_of_bounds import check_indices
from tvm_nnef.composition.values import (
    Environment,
    Item,
    Value,
    as_operand,
    defined,
    describe,
    is_known,
    is_scalar,
    scalar,
    type_of,
)
from tvm_nnef.diagnostics import Span, error
from tvm_nnef.graph import formula
from tvm_nnef.graph.nodes import Operand, Tensor, flatten, tensors
from tvm_nnef.semantics.names import used_names
from tvm_nnef.symbolic.dimensions import is_condition
from tvm_nnef.syntax import nodes
from tvm_nnef.syntax.walk import nodes_of

MAX_STATEMENTS = 1 << 14
"""Upper limit of the statements of a formula, if packs have that many items."""
MAX_UNROLLED = 1 << 11
"""Upper limit of the statements that ``unroll`` makes of a formula: compiling so many takes 10
seconds.
"""

_NULL_ELEMENTS: Mapping[str, bool | int | float] = {
    "+=": 0, "*=": 1, "&=": True, "|=": False, "min=": math.inf, "max=": -math.inf,
}  # fmt: skip


def expand(
    lowerings: Sequence[nodes.Lowering], results: tuple[Operand, ...], env: Environment
) -> formula.Formula:
    """Return the formula of an invocation; ``env`` has its operands and results by name.

    Raises NnefError, for example if an access has a wrong number of indices or is out of bounds.
    """
    statements: list[formula.Statement] = []
    for lowering in lowerings:
        if _written(lowering, env):
            statements += _expand_lowering(lowering, env)
            if len(statements) > MAX_STATEMENTS:
                message = f"the formula has more than {MAX_STATEMENTS} statements"
                raise error(message, lowering.span, hint=_WITH_INDEX)
    check_indices(statements, env.symbols.bounds)
    updates = _updates(lowerings, env)
    fills: list[formula.Fill] = []
    for tensor in flatten(results):
        own = [s for s in statements if any(store.tensor is tensor for store in s.stores)]
        fill, initializer = _fill(tensor, own, updates.get(tensor))
        fills.append(fill)
        if initializer is not None:
            statements = [s for s in statements if s is not initializer]
    declared = set(flatten(results))
    captures = dict.fromkeys(
        load.tensor
        for statement in statements
        for load in formula.loads(statement)
        if load.tensor.role in ("constant", "variable") and load.tensor not in declared
    )
    return formula.Formula(tuple(fills), tuple(statements), tuple(captures))


def _updates(lowerings: Sequence[nodes.Lowering], env: Environment) -> dict[Tensor, str]:
    """Return the operator that accumulates into each tensor; no entry for a tensor without one."""
    operators: dict[Tensor, str] = {}
    for lowering in lowerings:
        if lowering.operator in _NULL_ELEMENTS:
            operators.update(dict.fromkeys(_written(lowering, env), lowering.operator))
    return operators


def _written(lowering: nodes.Lowering, env: Environment) -> tuple[Tensor, ...]:
    """Return the tensors that a statement writes: none if its left side is an empty pack."""
    node: nodes.Expression = lowering.target
    while isinstance(node, nodes.Subscript):
        node = node.target
    return tensors(as_operand(known(node, env), node.span))


def _fill(
    tensor: Tensor, statements: list[formula.Statement], update: str | None
) -> tuple[formula.Fill, formula.Statement | None]:
    """Return the initial value of a tensor, and the statement that it makes redundant, if any.

    Elements that are not written are zero. An update starts from its null element, or from a
    constant initializer that covers the whole tensor.
    """
    zero = formula.Constant(tensor.type, {"int": 0, "real": 0.0, "bool": False}[tensor.type])
    if update is None:
        return formula.Fill(tensor, zero), None
    first = statements[0] if statements else None
    if first is not None and first.stores[0].operator == "=":
        value = first.stores[0].value
        plain = (
            len(first.stores) == 1 and first.condition is None and not any(formula.guards(first))
        )
        if plain and isinstance(value, formula.Constant):
            return formula.Fill(tensor, value), first
        return formula.Fill(tensor, zero), None
    null = _NULL_ELEMENTS[update]
    start = float(null) if tensor.type == "real" else null
    return formula.Fill(tensor, formula.Constant(tensor.type, start)), None


_WITH_INDEX = "write a loop with an index, as in 'y[i,] += x[i, k], i < n, k < m'"


def _expand_lowering(lowering: nodes.Lowering, env: Environment) -> Iterator[formula.Statement]:
    steps, most = 0, MAX_UNROLLED if lowering.unroll else MAX_STATEMENTS
    for outer in _unrolled(lowering.unroll, env):
        names = _pack_indices(lowering, outer)
        bounds = [bound for bound in lowering.bounds if bound.index.name in names]
        lengths = [
            count(known(bound.extent, outer), "a loop bound", bound.extent.span) for bound in bounds
        ]
        steps += max(1, math.prod(lengths))
        if steps > most:
            message = f"the formula unrolls to more than {most} statements"
            hint = _WITH_INDEX if lowering.unroll else "stack the packs by layout.stack first"
            raise error(message, lowering.span, hint=hint)
        for step in itertools.product(*map(range, lengths)):
            symbols = zip((bound.index.name for bound in bounds), step, strict=True)
            statement = _statement(lowering, outer.extended(dict(symbols)))
            if statement is not None:
                yield statement


def _unrolled(iteration: nodes.IterationCount | None, env: Environment) -> Iterator[Environment]:
    if iteration is None:
        yield env
        return
    assert iteration.count is not None
    length = count(known(iteration.count, env), "an iteration count", iteration.count.span)
    for i in range(length):
        yield env.extended({iteration.index.name: i}) if iteration.index else env


def _pack_indices(lowering: nodes.Lowering, env: Environment) -> set[str]:
    """Return the index symbols that select tensors from packs: their loops are unrolled."""
    packs = {
        name
        for name, value in env.names.items()
        if isinstance(value, tuple) and value and isinstance(value[0], Tensor)
    }
    if not packs:
        return packs
    symbols = {bound.index.name for bound in lowering.bounds if bound.index.name not in env.names}
    parts = (lowering.target, lowering.value, lowering.locals, lowering.condition)
    unrolled: set[str] = set()
    for subscript in nodes_of(nodes.Subscript, parts):
        target = subscript.target
        if not (isinstance(target, nodes.Identifier) and target.name in packs):
            continue
        single = len(subscript.items) == 1 and not subscript.trailing_comma
        if single and not isinstance(subscript.items[0], nodes.Expand | nodes.Range):
            unrolled |= {name.name for name in used_names(subscript.items)}
    return unrolled & symbols


def _statement(lowering: nodes.Lowering, env: Environment) -> formula.Statement | None:
    """Return a statement; None if it never runs, or if an initializer is null."""
    loops: list[formula.Loop] = []
    separator = _separator(lowering)
    for bound in lowering.bounds:
        if bound.index.name not in env.names:
            own, symbol = _loops(bound, env, separator)
            loops += own
            env = env.extended({bound.index.name: symbol})
    if any(loop.extent == formula.Constant("int", 0) for loop in loops):
        return None
    locals_: list[formula.Let] = []
    for local in lowering.locals:
        value, lets = _local(local, env, separator)
        locals_ += lets
        env = env.extended({local.name.name: value})
    condition = _condition(lowering.condition, env)
    if condition is False:
        return None
    value = defined(evaluate(lowering.value, env))
    if value is None:
        if lowering.operator == "=":
            return None
        raise error("the value of a formula is null", lowering.value.span, hint="use '??'")
    stores = _stores(lowering, value, env)
    if not stores:
        return None
    checked = None if condition is True else condition
    return formula.Statement(tuple(loops), stores, tuple(locals_), checked, lowering.span)


def _separator(lowering: nodes.Lowering) -> str:
    """Return a separator for numbered names of a pack of indices that no existing name contains."""
    names = [bound.index.name for bound in lowering.bounds]
    names += [local.name.name for local in lowering.locals]
    separator = "_"
    while any(a.startswith(b + separator) for a in names for b in names):
        separator += "_"
    return separator


def _loops(
    bound: nodes.LoopBound, env: Environment, separator: str
) -> tuple[list[formula.Loop], Value]:
    extent = known(bound.extent, env)
    if extent is None:
        raise error("a loop bound is null", bound.extent.span, hint=value_hints.FOR_NULL)
    items = extent if isinstance(extent, tuple) else (extent,)
    for item in items:
        if type_of(item) != "int" or (isinstance(item, int) and item < 0):
            message = f"a loop bound must be a non-negative integer, found {describe(item)}"
            hint = (
                "'n >> 0' is at least 0"
                if isinstance(item, int)
                else value_hints.integer(defined(item))
            )
            raise error(message, bound.extent.span, hint=hint)
    name = bound.index.name
    if not isinstance(extent, tuple):
        index = formula.Index(name)
        return [formula.Loop(index, scalar(extent))], index
    indices = tuple(formula.Index(f"{name}{separator}{i}") for i in range(len(items)))
    pairs = zip(indices, items, strict=True)
    return [formula.Loop(index, scalar(item)) for index, item in pairs], indices


def _local(
    local: nodes.LocalValue, env: Environment, separator: str
) -> tuple[Value, list[formula.Let]]:
    """Return the value of a local name, and a ``Let`` for each part that is worth computing
    once.
    """
    value = defined(evaluate(local.value, env))
    lets: list[formula.Let] = []

    def named(item: Item, name: str) -> Item:
        if not is_scalar(item) or isinstance(
            item, formula.Constant | formula.Index | formula.Local
        ):
            return item
        lets.append(formula.Let(name, item))
        return formula.Local(name, item.type)

    name = local.name.name
    if isinstance(value, tuple):
        return tuple(named(item, f"{name}{separator}{i}") for i, item in enumerate(value)), lets
    return (None if value is None else named(value, name)), lets


def _condition(node: nodes.Expression | None, env: Environment) -> formula.Scalar | bool:
    if node is None:
        return True
    value = known(node, env)
    if is_condition(value):
        value = scalar(value)
    elif isinstance(value, formula.Constant):
        value = bool(value.value)
    if isinstance(value, bool):
        return value
    if is_scalar(value) and value.type == "bool":
        return value
    message = f"a condition must be of type bool, found {describe(value)}"
    raise error(message, node.span, hint=value_hints.condition(value))


def _stores(lowering: nodes.Lowering, value: Value, env: Environment) -> tuple[formula.Store, ...]:
    """Return the stores of a statement: one, or one for each tensor of a packed assignment."""
    target = as_operand(known(lowering.target.target, env), lowering.target.span)
    accessed, indices = _accessed(target, lowering.target, env)
    values = value if isinstance(value, tuple) else (value,) * len(accessed)
    if len(values) != len(accessed):
        message = f"a pack of {len(values)} values is assigned to {len(accessed)} elements"
        hint = f"assign {len(accessed)} values, or a single one to all"
        raise error(message, lowering.value.span, hint=hint)
    operator: formula.StoreOperator = "=" if lowering.operator == ":=" else lowering.operator
    return tuple(
        formula.Store(
            tensor,
            tensor_subscripts(tensor, row, lowering.target.span),
            operator,
            _stored(tensor, item, lowering.value.span),
        )
        for tensor, row, item in zip(accessed, indices, values, strict=True)
    )


def _accessed(
    target: Operand, node: nodes.Subscript, env: Environment
) -> tuple[tuple[Tensor, ...], list[tuple[Value, ...]]]:
    """Return the tensors that a left-hand side writes, with the indices of each.

    An index that is a pack without being expanded denotes an element for each of its items.
    """
    written, indices = tensors(target), subscripts(node, env, target)
    if indices is None or any(index is None for index in indices):
        raise error("an index is null", node.span, hint=value_hints.FOR_NULL)
    indices = tuple(defined(index) for index in indices)
    rows = None if isinstance(target, tuple) else index_rows(indices, node.span)
    if rows is None:
        return written, [indices] * len(written)
    return written * len(rows), rows


def _stored(tensor: Tensor, item: Item, span: Span) -> formula.Scalar:
    if not (is_known(item) or is_scalar(item)) or isinstance(item, str):
        raise error(f"{describe(item)} cannot be stored", span, hint=value_hints.element(item))
    # The sum of an empty pack of reals is an integer here: only its items knew their type.
    result = scalar(item, tensor.type if (tensor.type, item) == ("real", 0) else None)
    if result.type != tensor.type:
        message = f"a value of type {result.type} is assigned to a tensor of type {tensor.type}"
        raise error(message, span, hint=f"convert it: {tensor.type}(…)")
    return result
