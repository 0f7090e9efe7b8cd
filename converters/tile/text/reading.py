"""Reading of the text of Tile functions from any source."""

from __future__ import annotations

import os

from tvm_nnef.diagnostics import Source, error
from tvm_nnef.storage.container import is_text
from tvm_nnef.storage.regular import open_regular

MAX_BYTES = 1 << 16
"""Upper limit of the bytes of a text."""


def read_text(source: str | bytes | os.PathLike[str]) -> Source:
    """Return the text and its name in messages.

    Raises NnefError if it cannot be read or is too long.
    """
    path, data = "<text>", b""
    if isinstance(source, bytes):
        path, data = "<bytes>", source
    elif isinstance(source, str) and is_text(source):
        data = source.encode("utf-8", "surrogatepass")
    else:
        path = str(source)
        try:
            with open_regular(source) as file:
                data = file.read(MAX_BYTES + 1)
        except (OSError, ValueError) as cause:
            reason = getattr(cause, "strerror", None) or cause
            hint = "check the path and its permissions"
            raise error(f"cannot be read: {reason}", hint=hint, file=path) from cause
    if len(data) > MAX_BYTES:
        message = f"the text is longer than {MAX_BYTES} bytes"
        raise error(message, hint="give the functions that you need only", file=path)
    try:
        return Source(path, data.decode("utf-8"))
    except UnicodeDecodeError as cause:
        message = "the text is not in UTF-8"
        raise error(message, hint="save it in this encoding", file=path) from cause
