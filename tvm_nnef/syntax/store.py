"""The user's cache folder: bytes under a key, kept from one process to the next.

Keys and bytes in, bytes out. Nothing here fails: what cannot be read is absent, and what
cannot be written is not kept. What the bytes mean is the business of those who keep them.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path


def folder() -> Path:
    """The folder in which this package keeps what it can make again."""
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("tvm_nnef", appauthor=False))


def key_of(*parts: str | bytes) -> str:
    """A name for what the parts determine."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()[:40]


def read(name: str) -> bytes | None:
    """The bytes kept under a file name, or None."""
    try:
        return (folder() / name).read_bytes()
    except (OSError, RuntimeError):
        return None


def write(name: str, data: bytes) -> None:
    """Keep bytes under a file name, whole or not at all."""
    # RuntimeError: no home folder can be found. A cache that cannot be written is not a cache.
    with contextlib.suppress(OSError, RuntimeError):
        location = folder()
        location.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=location, prefix=".new-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            Path(temporary).replace(location / name)
        finally:
            # Still there only where it did not replace it.
            Path(temporary).unlink(missing_ok=True)
