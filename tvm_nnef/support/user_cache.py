"""The user's cache folder: bytes under a key, kept from one process to the next.

Input: keys and bytes. Output: bytes. Nothing here fails: a file that cannot be read is absent, and
one that cannot be written is not kept. The meaning of the bytes is unknown here.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
from pathlib import Path


def folder() -> Path | None:
    """Return the cache folder of this package; None without a home folder."""
    configured = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if configured.is_absolute():  # By the XDG specification, other paths are ignored.
        return configured / "tvm_nnef"
    try:
        home = Path.home()
    except RuntimeError:
        return None
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData/Local", "tvm_nnef", "Cache")
    return home / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "tvm_nnef"


def key_of(*parts: str | bytes) -> str:
    """Return a name that is determined by the parts."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()[:40]


def read(name: str) -> bytes | None:
    """Return the bytes under a file name, or None."""
    location = folder()
    try:
        return None if location is None else (location / name).read_bytes()
    except OSError:
        return None


def write(name: str, data: bytes) -> None:
    """Write bytes under a file name, whole or not at all."""
    location = folder()
    if location is None:
        return
    with contextlib.suppress(OSError):  # Without a writable cache, nothing is cached.
        location.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=location, prefix=".new-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            Path(temporary).replace(location / name)
        finally:
            # Still there only where it did not replace it.
            Path(temporary).unlink(missing_ok=True)
