"""Left-hand sides (section 2.9): a name, a pack that is decomposed, a pack that is unzipped.

Input: targets and a value. Output: the value of each name.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_nnef.composition import value_hints
from tvm_nnef.composition.evaluate import known
from tvm_nnef.composition.indexing import count
from tvm_nnef.composition.values import Environment, Value, describe
from tvm_nnef.diagnostics import Span, error
from tvm_nnef.graph.nodes import Tensor
from tvm_nnef.semantics import hints
from tvm_nnef.symbolic import dimensions
from tvm_nnef.symbolic.dimensions import Dimension, is_symbolic
from tvm_nnef.syntax import nodes


def target_names(target: nodes.Target) -> Sequence[str]:
    """Return the names that a left-hand side declares."""
    match target:
        case nodes.NameTarget(name):
            return (name.name,)
        case nodes.ListTarget(items):
            return [name for item in items for name in target_names(item)]
        case nodes.ZipTarget(names):
            return [item.name.name for item in names]
        case _:
            return ()


def assignment_of(name: str, components: Sequence[nodes.Component]) -> Span | None:
    """Return the position at which components assign a name; None if they do not."""
    for component in components:
        for target in component.targets:
            if name in target_names(target):
                return target.span
    return None


def decompose(target: nodes.Target, value: Value, env: Environment, span: Span) -> dict[str, Value]:
    """Return the values of the names on a left-hand side: a value or parts of it (section 2.9).

    Raises NnefError if declared lengths do not match.
    """
    match target:
        case nodes.Omitted():
            return {}
        case nodes.NameTarget(name, _, _, pack):
            _check_declared_length(pack, value, env, target.span)
            return {name.name: value}
        case nodes.ZipTarget(names, pack):
            return _unzip(names, pack, value, env, span)
        case nodes.ListTarget(items):
            return _split(items, value, env, span)
    raise AssertionError(target)


def _check_declared_length(
    pack: nodes.Pack | None, value: Value, env: Environment, span: Span
) -> None:
    if pack is None or pack.length is None or value is None:
        return
    if isinstance(value, Tensor) and value in env.symbols.stacked:
        _check_stacked_length(value.shape[0], known(pack.length, env), env, span)
        return
    length = count(known(pack.length, env), "a pack length", pack.length.span)
    if not isinstance(value, tuple):
        message = f"a pack of length {length} is declared, found {describe(value)}"
        raise error(message, span, hint="write the name without '..', or give it a list")
    if len(value) != length:
        message = f"a pack of length {len(value)}, declared to be {length} long"
        raise error(message, span, hint=f"write '..({len(value)})', or '..' alone")


def _check_stacked_length(length: Dimension, declared: Value, env: Environment, span: Span) -> None:
    """Check a dynamic length that is declared as the tensor that holds it, or as its bound."""
    if isinstance(declared, Tensor) or declared == env.symbols.largest(length):
        return
    if not isinstance(declared, int) and not is_symbolic(declared):
        message = f"a pack length must be an integer, found {describe(declared)}"
        raise error(message, span, hint=value_hints.integer(declared))
    parts = ["a pack of length ", length, ", declared to be ", declared, " long"]
    hint = "write '..' without a length to take any"
    env.symbols.require(dimensions.compare("eq", length, declared), parts, span, hint=hint)


def _split(
    items: Sequence[nodes.NameTarget | nodes.ZipTarget | nodes.Omitted],
    value: Value,
    env: Environment,
    span: Span,
) -> dict[str, Value]:
    if value is None:
        return {name: None for item in items for name in target_names(item)}
    if not isinstance(value, tuple):
        message = f"only a pack can be decomposed, found {describe(value)}"
        raise error(message, span, hint="write a single name on the left")
    lengths = [_target_length(item, env) for item in items]
    flexible = [index for index, length in enumerate(lengths) if length is None]
    rest = len(value) - sum(length or 0 for length in lengths)
    if len(flexible) > 1:
        hint = "write lengths after '..', for all but one"
        raise error("more than one part of the list has no length", span, hint=hint)
    if rest < 0 or (rest > 0 and not flexible):
        hint = hints.parts(len(value) - rest, bool(flexible))
        message = f"a pack of length {len(value)} does not fit the list on the left"
        raise error(message, span, hint=hint)
    result: dict[str, Value] = {}
    position = 0
    for item, length in zip(items, lengths, strict=True):
        size = rest if length is None else length
        part = value[position : position + size]
        position += size
        single = isinstance(item, nodes.NameTarget) and item.pack is None
        if isinstance(item, nodes.ZipTarget):
            result |= _unzip(item.names, None, part, env, span)
        elif isinstance(item, nodes.NameTarget):
            result[item.name.name] = part[0] if single else part
    return result


def _target_length(
    item: nodes.NameTarget | nodes.ZipTarget | nodes.Omitted, env: Environment
) -> int | None:
    """Return the number of items that a part of a list gets; None if it gets the remaining ones."""
    if isinstance(item, nodes.Omitted) or (isinstance(item, nodes.NameTarget) and not item.pack):
        return 1
    pack = item.pack
    if pack is None or pack.length is None:
        return None
    length = count(known(pack.length, env), "a pack length", pack.length.span)
    return length * (len(item.names) if isinstance(item, nodes.ZipTarget) else 1)


def _unzip(
    names: Sequence[nodes.NameTarget],
    pack: nodes.Pack | None,
    value: Value,
    env: Environment,
    span: Span,
) -> dict[str, Value]:
    if value is None:
        return {item.name.name: None for item in names}
    if not isinstance(value, tuple) or len(value) % len(names):
        message = f"{describe(value)} cannot be unzipped into {len(names)} packs"
        hint = f"give a pack whose number of items is a multiple of {len(names)}"
        raise error(message, span, hint=hint)
    columns = {item.name.name: value[i :: len(names)] for i, item in enumerate(names)}
    for column in columns.values():
        _check_declared_length(pack, column, env, span)
    return dict(columns)
