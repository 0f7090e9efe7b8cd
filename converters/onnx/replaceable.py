"""Initializers that are inputs too: constants, or inputs with a default if a user asks for it.

Input: a model that was read, and the names of initializers that calls replace. Output: the model
in which these are inputs alone, after the others, and their values.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

import onnx
from onnx import helper

from tvm_nnef.converters.common.types import Array
from tvm_nnef.converters.onnx.reading import OnnxModel
from tvm_nnef.diagnostics import Diagnostic, NnefError, did_you_mean, error


@dataclass(frozen=True, slots=True)
class Defaults:
    """The values of inputs that calls may leave out, and the inputs that are constants."""

    values: Mapping[str, Array] = field(default_factory=dict, repr=False)
    fixed: tuple[str, ...] = ()


def with_replaceable(model: OnnxModel, names: Collection[str]) -> tuple[OnnxModel, Defaults]:
    """The model in which named initializers are inputs, and their values.

    Raises NnefError for names of anything but initializers that are inputs too.
    """
    if isinstance(names, str):
        hint = f"give a list: replaceable=[{names!r}]"
        raise error("'replaceable' has names of initializers", hint=hint)
    inputs = {value.name for value in model.proto.graph.input}
    every = dict(_initializers(model.proto.graph))
    both = [name for name in every if name in inputs]
    wrong = [name for name in dict.fromkeys(names) if name not in both]
    if wrong:
        raise NnefError(_not_replaceable(name, both, every, model.path) for name in wrong)
    fixed = tuple(name for name in both if name not in names)
    if not names:
        return model, Defaults(fixed=fixed)
    values = {
        name: model.array(each) if isinstance(each, onnx.TensorProto) else model.dense(each)
        for name, each in every.items()
        if name in names
    }
    return replace(model, proto=_as_inputs(model.proto, values)), Defaults(values, fixed)


def as_inputs(proto: onnx.ModelProto, names: Collection[str]) -> None:
    """Make initializers of a model inputs without values."""
    graph = proto.graph
    for kept, found in (
        (graph.initializer, [each for each in graph.initializer if each.name not in names]),
        (
            graph.sparse_initializer,
            [each for each in graph.sparse_initializer if each.values.name not in names],
        ),
    ):
        if len(found) < len(kept):
            del kept[:]
            kept.extend(found)


def _as_inputs(source: onnx.ModelProto, values: Mapping[str, Array]) -> onnx.ModelProto:
    """A copy of a model whose initializers of some values are its last inputs."""
    proto = onnx.ModelProto()
    proto.CopyFrom(source)
    as_inputs(proto, values)
    others = [value for value in proto.graph.input if value.name not in values]
    declared = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in values.items()
    ]
    del proto.graph.input[:]
    proto.graph.input.extend([*others, *declared])
    return proto


def _initializers(
    graph: onnx.GraphProto,
) -> Iterator[tuple[str, onnx.TensorProto | onnx.SparseTensorProto]]:
    for tensor in graph.initializer:
        yield tensor.name, tensor
    for sparse in graph.sparse_initializer:
        yield sparse.values.name, sparse


def _not_replaceable(
    name: str, both: Collection[str], every: Collection[str], path: str
) -> Diagnostic:
    if name in every:
        message = f"the initializer '{name}' is not an input, so that no call can replace it"
        return Diagnostic(message, hint="list it among the inputs of the graph, too", file=path)
    message = f"'replaceable' names '{name}', which is not an initializer of the model"
    listed = f"those that are inputs are {', '.join(both)}" if both else "none is an input"
    return Diagnostic(message, hint=did_you_mean(name, both) or listed, file=path)
