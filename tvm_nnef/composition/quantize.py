"""``@quantize``: quantization operators put behind the tensors that they are named for (2.14)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm_nnef.composition.binding import Invocation
from tvm_nnef.composition.evaluate import known
from tvm_nnef.composition.values import Value, as_operand
from tvm_nnef.diagnostics import NnefError, did_you_mean, error
from tvm_nnef.graph.nodes import Operand, Tensor, tensors
from tvm_nnef.semantics.program import MAIN, CheckedDefinition
from tvm_nnef.syntax import nodes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tvm_nnef.composition.composer import Composer, Frame


def entries(definition: CheckedDefinition) -> dict[str, nodes.Quantization]:
    """The quantizations of a graph by the full names of their tensors.

    A name is written from the graph on (``conv1.filter``), or in full (``main.Net.conv1.filter``).
    Raises NnefError for a tensor that has two of them.
    """
    scope = f"{MAIN}.{definition.name}."
    found: dict[str, nodes.Quantization] = {}
    for entry in definition.quantizations:
        written = str(entry.tensor)
        full = written if written.startswith(scope) else scope + written
        if full in found:
            raise error(f"'{written}' is quantized twice", entry.span)
        found[full] = entry
    return found


def quantized(composer: Composer, entry: nodes.Quantization, value: Value, frame: Frame) -> Value:
    """A tensor as its quantization operator leaves it; each tensor of a pack likewise."""
    operand = as_operand(value, entry.span)
    if isinstance(operand, tuple):
        return tuple(_apply(composer, entry, item, frame) for item in tensors(operand))
    return None if operand is None else _apply(composer, entry, operand, frame)


def _apply(composer: Composer, entry: nodes.Quantization, tensor: Tensor, frame: Frame) -> Tensor:
    call = entry.quantizer
    definition = composer.program.resolve(MAIN, call.callee)
    if len(definition.inputs) != 1 or len(definition.outputs) != 1:
        message = f"'{definition.qualified_name}' must have one input and one output to quantize"
        raise error(message, entry.span)
    attributes = {item.name.name: known(item.value, frame.env) for item in call.attributes}
    types = {
        dtype.name.name: type_.name
        for dtype, type_ in zip(definition.dtypes, call.generics, strict=False)
    }
    operands: tuple[Operand, ...] = (tensor,)
    invocation = Invocation(attributes, operands, types, entry.span)
    short = tensor.name.rpartition(".")[2]
    name = nodes.Identifier(f"{short}:quantized", span=entry.span)
    target = nodes.NameTarget(name, span=entry.span)
    (result,) = composer.invoke_bound(definition, invocation, call, frame, (target,))
    if not isinstance(result, Tensor) or (result.type, result.shape) != (tensor.type, tensor.shape):
        message = f"'{definition.qualified_name}' changes the type or shape of '{short}'"
        raise error(message, entry.span)
    return result


def unknown_tensor(entry: nodes.Quantization, known_names: Iterable[str], scope: str) -> NnefError:
    """The error for a quantization whose tensor does not exist."""
    names = [name.removeprefix(f"{scope}.") for name in known_names]
    hint = did_you_mean(str(entry.tensor), names)
    return error(f"there is no tensor '{entry.tensor}' to quantize", entry.tensor.span, hint=hint)
