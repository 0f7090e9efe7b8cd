"""The version of this package, which ``pyproject.toml`` has."""

from __future__ import annotations

import importlib.metadata
from contextlib import suppress


def _version() -> str:
    for distribution in ("tvm-nnef", "tvm-nnef-runtime"):
        with suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(distribution)
    return "unknown"  # The package is used without being installed.


__version__ = _version()
