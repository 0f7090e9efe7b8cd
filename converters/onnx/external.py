"""The elements of tensors that lie in their own files beside a model (ONNX's external data).

Input: a tensor of a model and the folder of the model. Output: its bytes, as an array. What a
model names is not trusted: only a plain file inside the folder is read, and exactly the tensor's
bytes of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath

import numpy as np
import onnx

from tvm_nnef.arrays.coded_arrays import numpy_dtype
from tvm_nnef.arrays.few_bits import FORMATS
from tvm_nnef.converters.common.types import Array
from tvm_nnef.converters.onnx.inner_graphs import inner_graphs
from tvm_nnef.storage.bit_packing import packed_size

_LONGEST = 80
"""Characters of a file name that a message shows."""


class Unreadable(Exception):
    """A tensor that cannot be read; the message says why, ``hint`` what to do."""

    def __init__(self, reason: str, hint: str = "the model is damaged: save it again") -> None:
        super().__init__(reason)
        self.hint = hint


def is_external(tensor: onnx.TensorProto) -> bool:
    """Whether the elements of a tensor lie in another file."""
    return bool(tensor.data_location == onnx.TensorProto.EXTERNAL)


def elements(tensor: onnx.TensorProto, dtype: str, folder: str | None) -> Array:
    """The elements of a tensor of external data, in its shape.

    Raises Unreadable for a file that is not in the folder, and for one that is too short.
    """
    keys = {entry.key: entry.value for entry in tensor.external_data}
    location = keys.get("location", "")
    if folder is None:
        hint = "give the path of the .onnx file, or load its external data first"
        raise Unreadable(f"its data are in a file '{location}', of no known folder", hint)
    path = _path(location, Path(folder))
    bits = FORMATS[dtype].bits if dtype in FORMATS else np.dtype(dtype).itemsize * 8
    size = packed_size(math.prod(tensor.dims), bits)
    offset, length = _number(keys, "offset", 0), _number(keys, "length", size)
    if length != size:
        raise Unreadable(f"its shape needs {size} bytes, but {length} are declared")
    try:
        there = path.stat().st_size
        if offset + size > there:
            reason = f"'{location}' has {there} bytes, but it needs {size} from {offset} on"
            raise Unreadable(reason, "the file is cut off, or belongs to another model")
        found: Array = np.fromfile(path, np.uint8, size, offset=offset)
    except OSError as cause:
        raise Unreadable(f"'{location}' cannot be read: {cause.strerror or cause}") from cause
    except MemoryError as cause:
        hint = "convert it on a computer with more memory"
        raise Unreadable(f"its {size} bytes do not fit into memory", hint) from cause
    if bits < 8:
        kind, data = tensor.data_type, found.tobytes()
        here = onnx.TensorProto(data_type=kind, dims=tensor.dims, raw_data=data)
        return np.asarray(onnx.numpy_helper.to_array(here))
    return found.view(numpy_dtype(dtype)).reshape(tuple(tensor.dims))


def inner_tensors(graph: onnx.GraphProto, *, outer: bool = True) -> Iterator[onnx.TensorProto]:
    """The tensors that attributes hold, and the initializers of inner graphs."""
    if not outer:
        yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
        for inner in inner_graphs(node):
            yield from inner_tensors(inner, outer=False)


def _path(location: str, folder: Path) -> Path:
    """The plain file that a model names; Unreadable for one outside of its folder."""
    hint = "external data are only read from plain files in the folder of the model, or below it"
    absolute = PurePosixPath(location).is_absolute() or PureWindowsPath(location).drive
    parts = PurePosixPath(location.replace("\\", "/")).parts
    if not parts or absolute or ".." in parts or "\0" in location:
        raise Unreadable(f"'{location}' is not a name of a file in the model's folder", hint)
    path = folder.joinpath(*parts)
    try:
        if path.is_symlink() or not path.resolve().is_relative_to(folder.resolve()):
            raise Unreadable(f"'{location}' is a link", hint)
        if not path.is_file():
            reason = "is not a plain file" if path.exists() else "is not there"
            hint = "keep the files of the data beside the model"
            raise Unreadable(f"'{location}' {reason}", hint)
    except RuntimeError as cause:  # a link to itself
        raise Unreadable(f"'{location}' is a link", hint) from cause
    except OSError as cause:
        shown = location if len(location) < _LONGEST else f"{location[:_LONGEST]}…"
        reason = cause.strerror or str(cause)
        raise Unreadable(f"'{shown}' cannot be read: {reason}") from cause
    return path


def _number(keys: dict[str, str], key: str, default: int) -> int:
    text = keys.get(key, str(default))
    if not text.isdecimal() or len(text) > 18:
        raise Unreadable(f"its {key} in the file is '{text}', which is not a number of bytes")
    return int(text)
