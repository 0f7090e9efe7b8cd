"""Compiled libraries as the model of a command: ``run model.so``, ``bench model.so``."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from tvm_nnef.cli.refusal import refuse_given
from tvm_nnef.executable.library_kind import is_library
from tvm_nnef.storage.metadata import Metadata, read_metadata

if TYPE_CHECKING:
    from tvm_nnef.executable.runtime import Executable

_OF_MODELS = (
    *("graph", "attr", "type", "shape", "dtype", "bound", "dialect", "search_path", "format"),
    *(
        "replaceable",
        "state",
        "vendor",
        "argument",
        "function",
        "route",
        "target",
        "checked",
        "database",
        "against",
    ),
)
"""The options that a library, which is built already, does not take."""


def load_library(options: argparse.Namespace) -> Executable | None:
    """The executable that the model of a command is; None for a model that has to be built.

    Raises NnefError for a library that cannot be loaded, and for options of models.
    """
    if not is_library(options.model):
        return None
    refuse_options_of_models(options)
    from tvm_nnef.executable.loading import load

    executable = load(options.model)
    threads: Any = getattr(options, "threads", None)
    if isinstance(threads, int):
        executable.threads = threads
    return executable


def refuse_options_of_models(options: argparse.Namespace) -> None:
    """Raises NnefError for options that a library, which is built already, does not take."""
    hint = "give it to 'tvm-nnef build', which makes the library"
    refuse_given(options, _OF_MODELS, "a library that is built already", hint, file=options.model)


def model_metadata(executable: Executable) -> Metadata:
    """The labels and image settings of a library, as ``model.json`` would."""
    described = {
        "labels": executable.metadata.get("labels") or [],
        "inputs": executable.metadata.get("images") or {},
    }
    return read_metadata(json.dumps(described).encode(), "metadata")
