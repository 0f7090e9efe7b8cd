"""Compiled libraries as the model of a command: ``run model.so``, ``bench model.so``."""

from __future__ import annotations

import argparse
import json
from typing import Any

from tvm_nnef.diagnostics import error
from tvm_nnef.library_file import is_library
from tvm_nnef.runtime import Executable, load
from tvm_nnef.storage.metadata import Metadata, read_metadata

_OF_MODELS: dict[str, object] = {
    "graph": None,
    "attr": [],
    "type": [],
    "shape": [],
    "bound": [],
    "format": None,
    "vendor": None,
    "dialect": "auto",
    "search_path": [],
    "route": "mapped",
    "target": "native",
    "checked": False,
    "database": None,
    "against": None,
}
"""The options that a library, which is built already, does not take, and their defaults."""


def load_library(options: argparse.Namespace) -> Executable | None:
    """The executable that the model of a command is; None for a model that has to be built.

    Raises NnefError for a library that cannot be loaded, and for options of models.
    """
    if not is_library(options.model):
        return None
    for name, default in _OF_MODELS.items():
        if getattr(options, name, default) != default:
            option = f"--{name.replace('_', '-')}"
            hint = "give it to 'tvm-nnef build', which makes the library"
            message = f"{option} has no meaning for a library that is built already"
            raise error(message, hint=hint, file=options.model)
    executable = load(options.model)
    threads: Any = getattr(options, "threads", None)
    if isinstance(threads, int):
        executable.threads = threads
    return executable


def model_metadata(executable: Executable) -> Metadata:
    """The labels and image settings of a library, as ``model.json`` would."""
    described = {
        "labels": executable.metadata.get("labels") or [],
        "inputs": executable.metadata.get("images") or {},
    }
    return read_metadata(json.dumps(described).encode(), "metadata")
