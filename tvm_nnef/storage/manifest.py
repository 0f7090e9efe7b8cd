"""The manifest of files that were written together: their names and SHA-256 digests, as JSON.

A model folder and an exported archive have one. It shows whether files were changed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

MANIFEST = ".tvm-nnef.json"
"""The name of the manifest among the files that it describes."""

_KEY = "sha256"
_PIECE = 1 << 20


def make_manifest(digests: Mapping[str, str]) -> bytes:
    """Return the manifest of files, given their digests by name."""
    return json.dumps({_KEY: dict(sorted(digests.items()))}, indent=1).encode()


def read_manifest(data: bytes) -> dict[str, str] | None:
    """Return the digests by name that a manifest holds, None if it is not a manifest."""
    try:
        digests = json.loads(data)[_KEY]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    if not isinstance(digests, dict):
        return None
    return {name: str(digest) for name, digest in digests.items()}


def digest(data: bytes) -> str:
    """Return the digest of the content of a file."""
    return hashlib.sha256(data).hexdigest()


def file_digest(path: Path, size: int | None = None) -> str:
    """Return the digest of a file, or of its first ``size`` bytes."""
    hasher = hashlib.sha256()
    left = path.stat().st_size if size is None else size
    with path.open("rb") as stream:
        while piece := stream.read(min(left, _PIECE)):
            hasher.update(piece)
            left -= len(piece)
    return hasher.hexdigest()
