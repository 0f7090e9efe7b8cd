"""Loads a converter when it is needed, and says what must be installed for it."""

from __future__ import annotations

import importlib
from types import ModuleType

from tvm_nnef.diagnostics import error


def converter(name: str) -> ModuleType:
    """A module of ``tvm_nnef.converters``; raises NnefError where its package is missing."""
    try:
        return importlib.import_module(f"tvm_nnef.converters.{name}")
    except ModuleNotFoundError as cause:
        if cause.name is None or cause.name.startswith("tvm_nnef"):
            raise
        extra = name.partition(".")[0]
        message = f"converting {extra} needs the package '{cause.name}'"
        raise error(message, hint=f"pip install 'tvm-nnef[{extra}]'") from cause
