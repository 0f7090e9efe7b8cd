"""A ModelProto to a file, whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import onnx

from tvm_nnef.diagnostics import error

_LIMIT = 2**31 - 1
"""As many bytes as Protobuf can write."""


def write(model: onnx.ModelProto, path: str | os.PathLike[str]) -> None:
    """Writes a model as a ``.onnx`` file; what was there is replaced when all is written.

    Raises NnefError for a model of more than 2 GiB and for a file that cannot be written.
    """
    if model.ByteSize() > _LIMIT:
        message = f"the ONNX model has {model.ByteSize()} bytes, more than a file can hold"
        raise error(message, hint="use a narrower machine type, such as float16", file=str(path))
    target = Path(path)
    fresh: str | None = None
    try:
        handle, fresh = tempfile.mkstemp(dir=target.resolve().parent, suffix=".onnx")
        with os.fdopen(handle, "wb") as file:
            file.write(model.SerializeToString())
        Path(fresh).chmod(0o666 & ~_umask())
        Path(fresh).replace(target)
    except OSError as cause:
        if fresh is not None:
            Path(fresh).unlink(missing_ok=True)
        hint = "see to the folder, its permissions and the free space of the disk"
        message = f"cannot be written: {cause.strerror or cause}"
        raise error(message, hint=hint, file=str(path)) from cause


def _umask() -> int:
    """The rights that new files lack; only setting them tells."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
