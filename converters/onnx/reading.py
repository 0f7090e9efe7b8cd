"""An ONNX model from a file or a proto: checked for version, functions inlined, weights at hand.

Leaves a ModelProto whose external data can be read from ``folder``. Nothing is converted here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import onnx
from google.protobuf.message import DecodeError
from onnx import inliner, numpy_helper

from tvm_nnef.converters.onnx.types import DTYPE_OF, Array, type_name
from tvm_nnef.diagnostics import error

OLDEST_OPSET = 1
Source: TypeAlias = "str | os.PathLike[str] | bytes | onnx.ModelProto"


@dataclass(frozen=True, slots=True)
class OnnxModel:
    """A model that was read; ``path`` is its name in messages, ``folder`` that of its data."""

    proto: onnx.ModelProto = field(repr=False)
    path: str
    folder: str

    @property
    def opsets(self) -> Mapping[str, int]:
        """The version of each operator set, by domain."""
        return opsets_of(self.proto.opset_import)

    def array(self, tensor: onnx.TensorProto) -> Array:
        """The elements of a tensor of the model. Raises NnefError where they cannot be read."""
        if tensor.data_type not in DTYPE_OF:
            name = type_name(tensor.data_type)
            raise error(
                f"tensor '{tensor.name}' has elements of type {name}, which cannot be converted",
                hint=f"types that can be: {', '.join(sorted(DTYPE_OF.values()))}",
                file=self.path,
            )
        try:
            found: Array = numpy_helper.to_array(tensor, self.folder)
        except (OSError, ValueError, onnx.checker.ValidationError) as cause:
            raise error(
                f"tensor '{tensor.name}' cannot be read: {cause}",
                hint="keep the files of external data beside the model",
                file=self.path,
            ) from cause
        return found


def read(source: Source) -> OnnxModel:
    """Reads a model. Raises NnefError for a file that is none, and for versions before opset 7."""
    if isinstance(source, onnx.ModelProto):
        proto, path, folder = source, "<onnx model>", ""
    else:
        data = source if isinstance(source, bytes) else _bytes(source)
        path = "<onnx model>" if isinstance(source, bytes) else str(source)
        folder = "" if isinstance(source, bytes) else str(Path(os.fspath(source)).parent)
        proto = _parse(data, path)
    version = opsets_of(proto.opset_import).get("", 0)
    if 0 < version < OLDEST_OPSET:
        raise error(
            f"the model is of opset {version}; {OLDEST_OPSET} is the oldest that is converted",
            hint="raise it with onnx.version_converter.convert_version",
            file=path,
        )
    if proto.functions:
        proto = inliner.inline_local_functions(proto)
    return OnnxModel(proto, path, folder)


def opsets_of(imports: object) -> dict[str, int]:
    """Versions by domain, the default domain under its short name."""
    found: dict[str, int] = {}
    for each in imports:  # type: ignore[attr-defined]
        found["" if each.domain == "ai.onnx" else each.domain] = each.version
    return found


def _bytes(path: str | os.PathLike[str]) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as cause:
        raise error(f"cannot be read: {cause.strerror}", file=str(path)) from cause


def _parse(data: bytes, path: str) -> onnx.ModelProto:
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except DecodeError as cause:
        raise error("this is no ONNX model", hint="give a .onnx file", file=path) from cause
    if not proto.HasField("graph"):
        raise error("the ONNX model has no graph", hint="give a .onnx file", file=path)
    return proto
