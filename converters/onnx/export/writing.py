"""An exported model to a file, whole or not at all, and without a second copy of its weights.

What Protobuf cannot hold, more than 2 GiB, goes into its own file beside the model.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np
import onnx
from google.protobuf.message import Message

from tvm_nnef.converters.onnx.export.emitter import Array
from tvm_nnef.diagnostics import error
from tvm_nnef.storage.output import is_stream, replacing

LIMIT = 2**31 - 1
"""As many bytes as a file of Protobuf can have."""

_ALIGNMENT = 4096
"""Tensors in their own file begin at multiples of this, so that they can be mapped."""

Piece: TypeAlias = "bytes | memoryview"


@dataclass(frozen=True, slots=True)
class Exported:
    """A model whose variables have no elements, and these, by the names of the initializers."""

    model: onnx.ModelProto = field(repr=False)
    arrays: Mapping[str, Array] = field(repr=False)

    def filled(self) -> onnx.ModelProto:
        """The model with everything in it."""
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        for tensor in model.graph.initializer:
            if tensor.name in self.arrays:
                tensor.raw_data = bytes(_elements(self.arrays[tensor.name]))
        return model


def write(exported: Exported, path: str | os.PathLike[str], *, limit: int = LIMIT) -> None:
    """Writes a model as a ``.onnx`` file; what was there is replaced when all is written.

    Where it has more bytes than ``limit``, the variables go to ``model.onnx.data`` beside it.
    Raises NnefError for a file that cannot be written.
    """
    target = Path(path)
    model, arrays = exported.model, exported.arrays
    pieces: dict[Path, Iterator[Piece]] = {}
    if model.ByteSize() + sum(array.nbytes for array in arrays.values()) > limit:
        if is_stream(path):
            message = f"a model of more than {limit} bytes consists of two files"
            raise error(message, hint="give the path of a regular file", file=str(path))
        data = target.with_name(f"{target.name}.data")
        model = _located(exported, data.name)
        pieces[data] = _aligned(arrays)
        pieces[target] = iter((model.SerializeToString(),))
    else:
        pieces[target] = _streamed(model, arrays)
    with ExitStack() as stack:
        drafts = {file: stack.enter_context(replacing(file)) for file in reversed(pieces)}
        for file, content in pieces.items():
            with drafts[file].open("wb") as stream:
                stream.writelines(content)


def _located(exported: Exported, file: str) -> onnx.ModelProto:
    """The model with offsets in a file for its variables."""
    model = onnx.ModelProto()
    model.CopyFrom(exported.model)
    positions = _offsets(exported.arrays)
    for tensor in model.graph.initializer:
        if tensor.name in positions:
            tensor.data_location = onnx.TensorProto.EXTERNAL
            size = exported.arrays[tensor.name].nbytes
            entries = {"location": file, "offset": positions[tensor.name], "length": size}
            for key, value in entries.items():
                tensor.external_data.add(key=key, value=str(value))
    return model


def _offsets(arrays: Mapping[str, Array]) -> dict[str, int]:
    positions, end = dict[str, int](), 0
    for name, array in arrays.items():
        positions[name] = end
        end += -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT
    return positions


def _aligned(arrays: Mapping[str, Array]) -> Iterator[Piece]:
    for array in arrays.values():
        yield _elements(array)
        yield bytes(-array.nbytes % _ALIGNMENT)


def _streamed(model: onnx.ModelProto, arrays: Mapping[str, Array]) -> Iterator[Piece]:
    """The bytes of a model as Protobuf writes them, the elements of its variables in their place.

    Fields may be in any order, so the variables come last in the graph, and the graph last.
    """
    light = onnx.ModelProto()
    light.CopyFrom(model)
    graph = light.graph
    variables = [each for each in graph.initializer if each.name in arrays]
    others = [each for each in graph.initializer if each.name not in arrays]
    del graph.initializer[:]
    graph.initializer.extend(others)
    heads: list[tuple[bytes, memoryview]] = []
    for tensor in variables:
        elements = _elements(arrays[tensor.name])
        inside = tensor.SerializeToString() + _head(tensor, "raw_data", elements.nbytes)
        heads.append(
            (_head(graph, "initializer", len(inside) + elements.nbytes) + inside, elements)
        )
    first = graph.SerializeToString()
    size = len(first) + sum(len(head) + elements.nbytes for head, elements in heads)
    light.ClearField("graph")
    yield light.SerializeToString()
    yield _head(light, "graph", size)
    yield first
    for head, elements in heads:
        yield head
        yield elements


def _head(message: Message, name: str, size: int) -> bytes:
    """Return the bytes before a field in Protobuf: its number, its kind, its size."""
    number = message.DESCRIPTOR.fields_by_name[name].number
    return _varint(number << 3 | 2) + _varint(size)


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*found, value))


def _elements(array: Array) -> memoryview:
    """The bytes of an array in the order of ONNX: row by row, little end first."""
    ordered = np.ascontiguousarray(array)
    if ordered.dtype.byteorder == ">":
        ordered = ordered.astype(ordered.dtype.newbyteorder("<"))
    return ordered.reshape(-1).view(np.uint8).data
