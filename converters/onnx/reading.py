"""An ONNX model from a file or a proto: checked for versions, functions inlined, weights at hand.

Output: a ModelProto whose external data can be read from ``folder``. Nothing is converted here.
"""

from __future__ import annotations

import math
import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np
import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from onnx import inliner, numpy_helper

from tvm_nnef.converters.common.types import Array
from tvm_nnef.converters.common.unconvertible import Unconvertible
from tvm_nnef.converters.onnx.external import Unreadable, elements, inner_tensors, is_external
from tvm_nnef.converters.onnx.inner_graphs import inner_graphs
from tvm_nnef.converters.onnx.node import attributes_of
from tvm_nnef.converters.onnx.order import first_early, is_sorted, sort
from tvm_nnef.converters.onnx.types import DTYPE_OF, type_name
from tvm_nnef.diagnostics import Diagnostic, NnefError, error, warn

PRODUCER = "tvm_nnef"
"""Who has made a model that was exported."""

UNNAMED = "<onnx model>"
"""The name in messages of a model given as bytes or as a proto."""

_LIMIT = 2**31 - 1
_DAMAGED = "the file is damaged: save the model again"
_OPSETS_SINCE = 3
"""The version of the file format from which on a model says its operator sets."""

Source: TypeAlias = "str | os.PathLike[str] | bytes | onnx.ModelProto"


@dataclass(frozen=True, slots=True)
class OnnxModel:
    """A model that was read; ``path`` is its name in messages, ``folder`` that of its data."""

    proto: onnx.ModelProto = field(repr=False)
    path: str
    folder: str | None

    @property
    def opsets(self) -> Mapping[str, int]:
        """The version of each operator set, by domain."""
        return opsets_of(self.proto.opset_import)

    @property
    def scope(self) -> str:
        """Return the prefix of names in a model that tvm_nnef has exported: ``main.G.``."""
        return f"{self.proto.graph.name}." if self.proto.producer_name == PRODUCER else ""

    def array(self, tensor: onnx.TensorProto) -> Array:
        """The elements of a tensor of the model. Raises NnefError if they cannot be read."""
        named = f"tensor '{tensor.name}'" if tensor.name else "a tensor"
        dtype = DTYPE_OF.get(tensor.data_type)
        if dtype is None:
            name = type_name(tensor.data_type)
            raise error(
                f"{named} has elements of type {name}, which cannot be converted",
                hint=f"types that can be: {', '.join(sorted(DTYPE_OF.values()))}",
                file=self.path,
            )
        try:
            return _elements(tensor, dtype, self.folder)
        except Unreadable as cause:
            message = f"{named} cannot be read: {cause}"
            raise error(message, hint=cause.hint, file=self.path) from cause

    def dense(self, sparse: onnx.SparseTensorProto) -> Array:
        """The elements of a sparse tensor, zeros included. Raises NnefError like ``array``."""
        values, indices = self.array(sparse.values), self.array(sparse.indices)
        try:
            dense = np.zeros(tuple(sparse.dims), values.dtype)
            if indices.ndim == 1:
                dense.reshape(-1)[indices] = values
            else:
                dense[tuple(indices.T)] = values
        except (IndexError, ValueError) as cause:
            message = f"the sparse tensor '{sparse.values.name}' cannot be read: {cause}"
            raise error(message, hint="correct the model", file=self.path) from cause
        return dense

    def attributes(self, proto: onnx.NodeProto) -> dict[str, object]:
        """The attributes of a node, tensors as arrays; Unconvertible for one that is damaged."""
        found: dict[str, object] = attributes_of(proto)
        for name, value in found.items():
            try:
                if isinstance(value, onnx.TensorProto):
                    found[name] = self.array(value)
                elif isinstance(value, onnx.SparseTensorProto):
                    found[name] = self.dense(value)
            except NnefError as problem:
                (cause,) = problem.diagnostics
                message = f"its attribute '{name}': {cause.message}"
                raise Unconvertible(message, cause.hint or "correct the model") from problem
        return found


def read(source: Source) -> OnnxModel:
    """Reads a model.

    Nodes in another order than a topological one are sorted, with a warning. Raises NnefError for a
    file that is none, for versions that nothing knows, for names that are given twice, for cycles,
    and for functions that cannot be inlined.
    """
    path, folder = UNNAMED, None
    if isinstance(source, onnx.ModelProto):
        proto = source
    elif isinstance(source, bytes):
        proto = _parse(source, path)
    else:
        path, folder = str(source), str(Path(os.fspath(source)).parent)
        proto = _parse(_bytes(source), path)
    _check_opsets(proto, path)
    _check_sparse(proto, path)
    if proto.functions:
        proto = _inlined(_copied(proto) if proto is source else proto, path)
    problems = [Diagnostic(message, hint=hint, file=path) for message, hint in _wrong(proto.graph)]
    if problems:
        raise NnefError(problems)
    if not is_sorted(proto.graph):
        proto = _copied(proto) if proto is source else proto
        warn(
            f"the nodes are not in topological order: {first_early(proto.graph)}; they are sorted",
            hint="correct the program that wrote the model, since other tools may refuse it",
            file=path,
        )
        sort(proto.graph, path)
    model = OnnxModel(proto, path, folder)
    for tensor in inner_tensors(proto.graph):
        if is_external(tensor):
            # What executes or infers single nodes knows no folder.
            tensor.CopyFrom(numpy_helper.from_array(model.array(tensor), tensor.name))
    return model


def opsets_of(imports: object) -> dict[str, int]:
    """Versions by domain, the default domain under its short name."""
    found: dict[str, int] = {}
    for each in imports:  # type: ignore[attr-defined]
        found["" if each.domain == "ai.onnx" else each.domain] = each.version
    return found


def _elements(tensor: onnx.TensorProto, dtype: str, folder: str | None) -> Array:
    if any(size < 0 for size in tensor.dims):
        raise Unreadable(f"its shape is {list(tensor.dims)}")
    if is_external(tensor):
        return elements(tensor, dtype, folder)
    try:
        found: Array = numpy_helper.to_array(tensor)
    except (ValueError, TypeError, OverflowError) as cause:
        raise Unreadable(f"{cause}") from cause
    return found


def _bytes(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a regular file, whose size is checked before it is read."""
    try:
        found = Path(path).stat()
        if stat.S_ISDIR(found.st_mode):
            raise error("cannot be read: it is a folder", hint="give a .onnx file", file=str(path))
        if not stat.S_ISREG(found.st_mode):
            message = "cannot be read: it is not a regular file"
            raise error(message, hint="give a .onnx file", file=str(path))
        _check_size(found.st_size, str(path))
        return Path(path).read_bytes()
    except (OSError, ValueError) as cause:
        reason = getattr(cause, "strerror", None) or cause
        hint = "check the path and its permissions"
        raise error(f"cannot be read: {reason}", hint=hint, file=str(path)) from cause


def _check_size(size: int, path: str) -> None:
    if size > _LIMIT:
        hint = "save it with external data (onnx.save, save_as_external_data=True)"
        raise error("Protobuf cannot read more than 2 GiB", hint=hint, file=path)


def _parse(data: bytes, path: str) -> onnx.ModelProto:
    if not data:
        raise error("the file is empty", hint="give a .onnx file", file=path)
    _check_size(len(data), path)
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except DecodeError as cause:
        hint = "give a .onnx file; if it is one, it is damaged or cut off"
        raise error("this is not an ONNX model", hint=hint, file=path) from cause
    if not proto.HasField("graph"):
        raise error("the ONNX model has no graph", hint="give a .onnx file", file=path)
    if not all(isinstance(text, str) for text in _texts(proto)):
        raise error("the ONNX model has names that are not text", hint=_DAMAGED, file=path)
    return proto


def _texts(message: Message) -> Iterator[object]:
    """Every text of a model; one that is not in UTF-8 comes as bytes."""
    if isinstance(message, onnx.TensorProto):
        # To list the fields of a tensor would copy its elements.
        yield from (message.name, message.doc_string)
        for entry in message.external_data:
            yield from _texts(entry)
        return
    for descriptor, value in message.ListFields():
        items = (value,) if isinstance(value, (str, bytes, Message)) else value
        if descriptor.type == FieldDescriptor.TYPE_STRING:
            yield from items
        elif descriptor.type == FieldDescriptor.TYPE_MESSAGE:
            for item in items:
                yield from _texts(item)


def _check_opsets(proto: onnx.ModelProto, path: str) -> None:
    """Raises NnefError for versions of the standard operators that this onnx does not know."""
    newest = onnx.defs.onnx_opset_version()
    version = opsets_of(proto.opset_import).get("")
    if version is None and proto.ir_version >= _OPSETS_SINCE and _uses_standard(proto):
        message = "the model does not say about which opset its operators are"
        raise error(message, hint="add an opset_import for the domain ''", file=path)
    if version is not None and not 1 <= version <= newest:
        message = f"the model is of opset {version}; this onnx knows 1 to {newest}"
        hint = "update the package 'onnx', or convert the model with onnx.version_converter"
        raise error(message, hint=hint, file=path)


def _check_sparse(proto: onnx.ModelProto, path: str) -> None:
    """Raises NnefError for sparse tensors that are too large when dense: a few bytes may say so."""
    size = 0
    for graph in (proto.graph, *proto.functions):
        for sparse in _sparse_tensors(graph):
            dtype = np.dtype(DTYPE_OF.get(sparse.values.data_type, "float64"))
            size += math.prod(max(length, 0) for length in sparse.dims) * dtype.itemsize
    if size > _LIMIT:
        message = f"the sparse tensors of the model take {size} bytes when dense"
        hint = f"the limit is {_LIMIT} bytes: use smaller tensors"
        raise error(message, hint=hint, file=path)


def _sparse_tensors(
    graph: onnx.GraphProto | onnx.FunctionProto,
) -> Iterator[onnx.SparseTensorProto]:
    """The sparse tensors of a graph and of the graphs inside it."""
    if isinstance(graph, onnx.GraphProto):
        yield from graph.sparse_initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("sparse_tensor"):
                yield attribute.sparse_tensor
            yield from attribute.sparse_tensors
        for inner in inner_graphs(node):
            yield from _sparse_tensors(inner)


def _uses_standard(proto: onnx.ModelProto) -> bool:
    return any(node.domain in ("", "ai.onnx") for node in proto.graph.node)


def _copied(proto: onnx.ModelProto) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    return copy


def _inlined(proto: onnx.ModelProto, path: str) -> onnx.ModelProto:
    """A model without functions; what comes in is changed."""
    defaults = {(each.domain, each.name): each.attribute_proto for each in proto.functions}
    # The inliner forgets what attributes are where a node does not say it.
    for node in _every_node((proto.graph, *proto.functions)):
        given = {attribute.name for attribute in node.attribute}
        left_out = defaults.get((node.domain, node.op_type), ())
        node.attribute.extend(each for each in left_out if each.name not in given)
    try:
        return inliner.inline_local_functions(proto)
    except (onnx.checker.ValidationError, RuntimeError, ValueError, DecodeError) as cause:
        message = f"the functions of the model cannot be inlined: {_first_line(cause)}"
        raise error(message, hint="correct the functions, or inline them", file=path) from cause


def _every_node(
    graphs: Iterable[onnx.GraphProto | onnx.FunctionProto],
) -> Iterator[onnx.NodeProto]:
    for graph in graphs:
        for node in graph.node:
            yield node
            yield from _every_node(inner_graphs(node))


def _first_line(cause: Exception) -> str:
    return str(cause).strip().partition("\n")[0]


def _wrong(graph: onnx.GraphProto) -> Iterator[tuple[str, str]]:
    """Yield the errors in the names of a graph: messages and hints."""
    hint = "a name of an ONNX graph stands for one value: correct the model"
    given: dict[str, str] = {}
    for kind, names in (
        ("an initializer", (tensor.name for tensor in graph.initializer)),
        ("a sparse initializer", (each.values.name for each in graph.sparse_initializer)),
        ("a node", (name for node in graph.node for name in node.output if name)),
    ):
        for name in names:
            if name in given:
                yield f"'{name}' is given twice, by {given[name]} and by {kind}", hint
            given[name] = kind
    for name, count in Counter(value.name for value in graph.input).items():
        if not name:
            yield "an input of the graph has no name", "name it"
        elif count > 1:
            yield f"two inputs have the name '{name}'", hint
        elif given.get(name) == "a node":
            yield f"'{name}' is an input, and a node gives it again", hint
    if not graph.output:
        yield "the graph has no outputs, so that nothing is computed", "declare its outputs"


def makers(model: OnnxModel) -> Iterator[tuple[str, tuple[str, str]]]:
    """The name of each value between nodes, with the node's name and its operator.

    A node without a name is called by its number. Nodes inside of branches and loops are left out,
    those of the model's functions are not.
    """
    for number, node in enumerate(model.proto.graph.node):
        operator = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
        for name in filter(None, node.output):
            yield name, (node.name or f"number {number}", operator)
