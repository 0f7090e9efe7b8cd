"""The version of this package, which ``pyproject.toml`` has."""

from __future__ import annotations

import importlib.metadata


def _version() -> str:
    try:
        return importlib.metadata.version("tvm-nnef")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"  # The package is used without being installed.


__version__ = _version()
