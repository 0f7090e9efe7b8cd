"""Detection of a model's format from the content of files, never from a suffix alone.

Input: a candidate. Output: whether it has a format. No foreign library is imported.
"""

from __future__ import annotations

import codecs
import functools
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from tvm_nnef.storage.container import Container
from tvm_nnef.storage.names import MAIN_FILE, NNEF1_FILE

HEAD = 1 << 16
"""The number of bytes at the beginning of a file that are examined."""

_CONTROL = re.compile(rb"[\0-\x08\x0e-\x1a\x1c-\x1f]")
_SKRIPTND = re.compile(
    rb"^\s*(@|(public\s+)?(graph\b(?!\s+\w+\s*\()|(operator|import|enum|struct)\b(?!\s*=)))",
    re.MULTILINE,
)
_NNEF1 = re.compile(rb"^\s*(version\s+[0-9.]+\s*;|fragment\s+\w+|graph\s+\w+\s*\()", re.MULTILINE)


@dataclass(frozen=True)
class Candidate:
    """A source of a model whose format can be detected.

    ``head`` is the beginning of a file, of bytes or of a text, empty for anything else;
    ``container`` holds the files of a folder or an archive.
    """

    source: Any
    head: bytes = b""
    container: Container | None = None

    def has(self, name: str) -> bool:
        """Whether a folder or an archive holds a file of this name."""
        return self.container is not None and self.container.exists(name)

    def is_from(self, package: str) -> bool:
        """Whether the source is an object of a class that a package defines."""
        home = type(self.source).__module__
        return home == package or home.startswith((f"{package}.", f"{package}_"))

    @property
    def path(self) -> Path:
        """The path of a source that is named by one; empty for anything else."""
        is_path = isinstance(self.source, (str, Path)) and "\n" not in str(self.source)
        return Path(self.source) if is_path else Path()

    @property
    def is_python(self) -> bool:
        """Whether it is a program in Python, whose imports and decorators look like SkriptND."""
        return self.path.suffix == ".py" and self.text is not None

    @property
    def text(self) -> bytes | None:
        """The beginning of a text in UTF-8 without its byte order mark; None for anything else."""
        if not self.head or _CONTROL.search(self.head):
            return None
        # The last character may be cut off.
        decoded = self.head.decode(errors="ignore").encode()
        is_text = len(self.head) - len(decoded) < 4
        return self.head.removeprefix(codecs.BOM_UTF8) if is_text else None


def is_skriptnd(candidate: Candidate) -> bool:
    """Whether it is a folder or archive with a main module, or a text with a definition or an
    import.
    """
    if candidate.container is not None:
        return candidate.has(MAIN_FILE)
    if candidate.text is None or candidate.is_python:
        return False
    return bool(_SKRIPTND.search(candidate.text))


def is_nnef1(candidate: Candidate) -> bool:
    """Whether it is a folder or archive with a graph, or a text with a version, fragment or
    graph.
    """
    if candidate.container is not None:
        return candidate.has(NNEF1_FILE)
    return candidate.text is not None and bool(_NNEF1.search(candidate.text))


_ANTARES = re.compile(rb"^[^#\n]*?(?<![\w.])einstein_v2\s*\(", re.MULTILINE)


def is_antares(candidate: Candidate) -> bool:
    """Whether it is a text that calls ``einstein_v2``."""
    return candidate.text is not None and bool(_ANTARES.search(candidate.text))


_TILE_FUNCTION = re.compile(rb"^[ \t]*Tensor\s+\w+\s*\(", re.MULTILINE)
_TILE_TYPE = re.compile(rb"\bTensor\s*&|\bTensor(Dim|Index|Output)\b|\bTensor\s+\w+\s*[,)]")


_TILE_PACKAGE = "tvm_nnef.converters.tile"
_TILE_NAMES = frozenset(
    {"TensorDim", "TensorDims", "TensorIndex", "TensorIndexes", "TensorIndices", "TensorOutput"}
    | {"bind_dims", "add_constraint", _TILE_PACKAGE}
)
_MOST_FUNCTIONS = 64

PYTHON_FUNCTIONS = (FunctionType, MethodType)
"""Functions that are written in Python."""


def is_tile(candidate: Candidate) -> bool:
    """Whether it is a Python function that uses Tile, or a text of functions of tensors in C++."""
    source = without_partial(candidate.source)
    if isinstance(source, PYTHON_FUNCTIONS):
        return _uses_tile(source)
    text = candidate.text
    return text is not None and bool(_TILE_FUNCTION.search(text) and _TILE_TYPE.search(text))


def without_partial(function: Any) -> Any:
    """Return the function whose arguments ``functools.partial`` binds."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _uses_tile(function: object) -> bool:
    """Whether a function, an inner function or a function that it calls refers to names of Tile."""
    waiting, seen = [function], set[CodeType]()
    while waiting and len(seen) < _MOST_FUNCTIONS:
        each = waiting.pop()
        each = each.__func__ if isinstance(each, MethodType) else each
        if not isinstance(each, FunctionType) or each.__code__ in seen:
            continue
        seen.add(each.__code__)
        names = set(_names(each.__code__))
        if names & _TILE_NAMES:
            return True
        referenced = [each.__globals__.get(name) for name in names]
        referenced += [cell.cell_contents for cell in each.__closure__ or () if _is_filled(cell)]
        for value in referenced:
            home = value.__name__ if isinstance(value, ModuleType) else _home(value)
            if home == _TILE_PACKAGE or home.startswith(f"{_TILE_PACKAGE}."):
                return True
        waiting += referenced
    return False


def _home(value: object) -> str:
    return str(getattr(value, "__module__", ""))


def _names(code: CodeType) -> Iterator[str]:
    """Yield the names of globals, attributes and imports in a function and its inner functions."""
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _names(each)


def _is_filled(cell: CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


_VARINT, _BYTES = 0, 2

_MODEL_FIELDS: Mapping[int, int] = {
    1: _VARINT, 2: _BYTES, 3: _BYTES, 4: _BYTES, 5: _VARINT, 6: _BYTES, 7: _BYTES, 8: _BYTES,
    14: _BYTES, 20: _BYTES, 25: _BYTES, 26: _BYTES,
}  # fmt: skip
"""The fields of an ONNX ModelProto with their wire types: ir_version, producer_name, …, graph."""


def is_onnx(candidate: Candidate) -> bool:
    """Whether it is an object of the package ``onnx``, or bytes that begin like a ModelProto."""
    if candidate.is_from("onnx"):
        return True
    if candidate.text is not None or not candidate.head:
        return False
    try:
        return all(_MODEL_FIELDS.get(number) == kind for number, kind in _fields(candidate.head))
    except ValueError:
        return False


def is_torch(candidate: Candidate) -> bool:
    """Whether it is a module or an exported program of PyTorch, which is imported in that case."""
    torch: Any = sys.modules.get("torch")
    if not hasattr(torch, "nn"):  # It may be a folder of the user's.
        return False
    exported: Any = sys.modules.get("torch.export")
    kinds = (torch.nn.Module, *([] if exported is None else [exported.ExportedProgram]))
    return isinstance(candidate.source, kinds)


def _fields(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield number and wire type of each field in the beginning of a Protobuf message.

    Raises ValueError for other data.
    """
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        yield tag >> 3, tag & 7
        length, position = _varint(data, position)
        if tag & 7 == _BYTES:
            position += length


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Return a number of at most 64 bits and the position after it; 0 if the data end."""
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(data):
            return 0, position
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position += 1
        if byte < 0x80:
            return value, position
    raise ValueError("a number of more than 64 bits")


_MODULE = re.compile(
    rb"^\s*(module\b[^;]*\{|func\.func\b|#loc\d*\s*=|\"?builtin\.module\"?)", re.MULTILINE
)
_BYTECODE = b"ML\xefR"


def is_stablehlo(candidate: Candidate) -> bool:
    """Whether it is an object of JAX or MLIR, MLIR's bytecode, alone or in an export, or its
    text.
    """
    if candidate.is_from("jax") or candidate.is_from("jaxlib"):
        return True
    if candidate.text is not None:
        return bool(_MODULE.search(candidate.text))
    return _BYTECODE in candidate.head
