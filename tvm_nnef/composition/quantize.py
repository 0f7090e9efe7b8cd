"""Insertion of the operators of ``@quantize`` after the tensors that they name (2.14)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tvm_nnef.composition.binding import Invocation
from tvm_nnef.composition.evaluate import known
from tvm_nnef.composition.values import Environment, Value, as_operand
from tvm_nnef.diagnostics import did_you_mean, error
from tvm_nnef.graph.nodes import Operand, Tensor, tensors
from tvm_nnef.semantics.program import CheckedDefinition
from tvm_nnef.syntax import nodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tvm_nnef.composition.frame import Frame
    from tvm_nnef.composition.invoker import Invoker


@dataclass(frozen=True, slots=True)
class Entry:
    """A quantization and its context: scope, module, and the environment of its expressions."""

    node: nodes.Quantization
    scope: str
    module: str
    env: Environment


def entries(definition: CheckedDefinition, scope: str, env: Environment) -> dict[str, Entry]:
    """Return the quantizations of a definition by the full names of their tensors.

    A name is written from the definition on (``conv1.filter``), or in full
    (``main.Net.conv1.filter``). Raises NnefError for a tensor that has two of them.
    """
    quantizations: dict[str, Entry] = {}
    for node in definition.quantizations:
        written = str(node.tensor)
        full = written if written.startswith(f"{scope}.") else f"{scope}.{written}"
        if full in quantizations:
            raise error(f"'{written}' is quantized twice", node.span, hint="remove one of the two")
        quantizations[full] = Entry(node, scope, definition.module, env)
    return quantizations


def quantized(composer: Invoker, entry: Entry, value: Value, frame: Frame) -> Value:
    """Return the result of a quantization operator on a tensor, or on each tensor of a pack.

    Raises NnefError for an inner tensor of an operator that is not public (section 2.10).
    """
    operand = as_operand(value, entry.node.span)
    declared = all(tensor.role in ("variable", "constant") for tensor in tensors(operand))
    if entry.scope != frame.scope and not (frame.public or declared):
        message = f"'{entry.node.tensor}' is an inner tensor of an operator that is not public"
        hint = "write 'public operator', or quantize a variable or constant of it"
        raise error(message, entry.node.tensor.span, hint=hint)
    if isinstance(operand, tuple):
        return tuple(_apply(composer, entry, item, frame) for item in tensors(operand))
    return None if operand is None else _apply(composer, entry, operand, frame)


def _apply(composer: Invoker, entry: Entry, tensor: Tensor, frame: Frame) -> Tensor:
    call, span = entry.node.quantizer, entry.node.span
    definition = composer.program.resolve(entry.module, call.callee)
    if len(definition.inputs) != 1 or len(definition.outputs) != 1:
        message = f"'{definition.qualified_name}' must have one input and one output to quantize"
        counts = f"{len(definition.inputs)} and {len(definition.outputs)}"
        hint = f"it has {counts}; operators of 'quant' such as min_max_linear_quantize fit"
        raise error(message, span, hint=hint)
    attributes = {item.name.name: known(item.value, entry.env) for item in call.attributes}
    types = {
        dtype.name.name: type_.name
        for dtype, type_ in zip(definition.dtypes, call.generics, strict=False)
    }
    operands: tuple[Operand, ...] = (tensor,)
    invocation = Invocation(attributes, operands, types, span)
    short = tensor.short_name
    name = nodes.Identifier(f"{short}:quantized", span=span)
    target = nodes.NameTarget(name, span=span)
    (result,) = composer.invoke_bound(definition, invocation, call, frame, (target,))
    if not isinstance(result, Tensor) or (result.type, result.shape) != (tensor.type, tensor.shape):
        message = f"'{definition.qualified_name}' changes the type or shape of '{short}'"
        hint = f"a quantization returns its input's type and shape, {tensor.type}{tensor.shape}"
        raise error(message, span, hint=hint)
    return result


def check_applied(waiting: Mapping[str, Entry], scope: str, known_names: Iterable[str]) -> None:
    """Raise NnefError if a quantization of a scope was not applied: its tensor does not exist."""
    for entry in waiting.values():
        if entry.scope == scope:
            names = [name.removeprefix(f"{scope}.") for name in known_names]
            written = entry.node.tensor
            hint = did_you_mean(str(written), names) or "name a result, an input or a variable"
            raise error(f"there is no tensor '{written}' to quantize", written.span, hint=hint)
