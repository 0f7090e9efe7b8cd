"""The report of ``check`` about a built library."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from tvm_nnef.arguments.ports import port_info
from tvm_nnef.cli.library import refuse_options_of_models
from tvm_nnef.diagnostics import Diagnostic, NnefError, printable
from tvm_nnef.executable.library_file import inspect_library
from tvm_nnef.executable.metadata import mismatch

_PORTS = ("inputs", "outputs")


def checked_library(
    options: argparse.Namespace,
) -> tuple[Mapping[str, Any] | None, list[Diagnostic]]:
    """The metadata of a library, unless it is damaged, and why load would reject it."""
    refuse_options_of_models(options)
    try:
        metadata = inspect_library(options.model)
    except NnefError as problem:
        return None, list(problem.diagnostics)
    needed = mismatch(metadata)
    if needed is None:
        return metadata, []
    message = f"this library cannot be loaded here: it is for {needed}"
    hint = "load it on a machine of that kind, or build the model for this one ('native')"
    found = Diagnostic(message, None, hint, severity="warning", file=options.model)
    return metadata, [found]


def described(metadata: Mapping[str, Any]) -> str:
    """A library in a few lines: its target, its versions, its inputs and outputs."""
    target, versions = metadata["target"], metadata["versions"]
    cpu = " ".join(filter(None, (target["cpu"], *sorted(target["features"]))))
    rows = [
        ("target", f"{target['device']}, {target['triple']}, {cpu}".rstrip(", ")),
        ("versions", ", ".join(f"{name} {version}" for name, version in versions.items())),
        *((key[:-1], str(port_info(each))) for key in _PORTS for each in metadata[key]),
    ]
    return "\n".join(f"  {name:<8}  {printable(text, single_line=True)}" for name, text in rows)
