"""The file with the large weights of a compiled library, which is mapped into memory.

The file is a header, then the weights as the kernels read them, each at a multiple of 64 bytes. The
header says what the digest of all after it is. The metadata of the library say so, too, and where
each weight is. Functions of the library take an array of all weights as their last argument.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from tvm_nnef.diagnostics import NnefError, error

Array: TypeAlias = np.ndarray[Any, Any]

SUFFIX = ".params"
"""Suffix of the name of the file, after that of its library."""

HEADER = 128
"""The size of the header in bytes."""

_MARK = b"tvm-nnef parameters, sha256 of all after this header: "


def header(digest: str) -> bytes:
    """The header for weights with a digest."""
    return (_MARK + digest.encode() + b"\n").ljust(HEADER, b"\0")


def weight_digest(data: Array) -> str:
    """The digest of the content of a parameter file after its header."""
    return hashlib.sha256(data[HEADER:].data).hexdigest()


def read_parameters(path: Path, described: Mapping[str, Any], library: str) -> Array:
    """The content of a parameter file, mapped into memory.

    ``described`` is its entry in the metadata of its ``library``. Raises NnefError if the file is
    missing or damaged, or belongs to another library.
    """
    name = path.name
    if not path.is_file():
        raise _refused(library, f"its weights are in '{name}', which is missing")
    size, expected = path.stat().st_size, int(described["bytes"])
    with path.open("rb") as stream:
        start = stream.read(HEADER)
    if not start.startswith(_MARK):
        raise _refused(library, f"'{name}' is not a parameter file")
    if start != header(str(described["sha256"])):
        raise _refused(library, f"'{name}' has the weights of another library")
    if size != expected:
        raise _refused(library, f"'{name}' is damaged: it has {size} bytes instead of {expected}")
    data = np.memmap(path, "uint8", "c")
    if weight_digest(data) != described["sha256"]:
        raise _refused(library, f"'{name}' is damaged: its content was changed")
    return data


def _refused(library: str, reason: str) -> NnefError:
    hint = "keep both files together; Executable.export writes them"
    return error(f"cannot load '{library}': {reason}", hint=hint)
