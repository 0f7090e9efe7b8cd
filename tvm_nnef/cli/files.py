"""Files that a command writes: whole or not at all."""

from __future__ import annotations

from pathlib import Path

from tvm_nnef.diagnostics import error


def write_file(file: str, data: bytes) -> None:
    """Writes a file whole or not at all. Raises NnefError where that fails."""
    path = Path(file)
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_bytes(data)
        partial.replace(path)
    except OSError as cause:
        partial.unlink(missing_ok=True)
        raise error(f"cannot be written: {cause.strerror}", file=file) from None
