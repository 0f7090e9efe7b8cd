"""``tvm-nnef check MODEL``: every diagnostic of a model, without executing anything."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from tvm_nnef.api.checking import check
from tvm_nnef.cli.arguments import compose_options, load_options
from tvm_nnef.cli.terminal import rendered
from tvm_nnef.diagnostics import Diagnostic, plural, printable
from tvm_nnef.executable.library_kind import is_library


def run(options: argparse.Namespace) -> int:
    """Print diagnostics and a verdict; 1 if there are errors."""
    description = ""
    if is_library(options.model):
        description, found = _checked_library(options)
    else:
        found = check(options.model, **load_options(options), **compose_options(options))
    errors = sum(diagnostic.severity == "error" for diagnostic in found)
    match options.output_format:
        case "json":
            print(json.dumps([each.to_json() for each in found], indent=2))
        case "github":
            print("".join(f"{_annotation(each)}\n" for each in found), end="")
        case _:
            _print(options, found, errors)
            if not options.quiet:
                print(description, end="")
    return 1 if errors else 0


def _print(options: argparse.Namespace, found: Sequence[Diagnostic], errors: int) -> None:
    for diagnostic in found:
        print(rendered(diagnostic), file=sys.stderr)
    if errors:
        print(plural(errors, "error"), file=sys.stderr)
    elif not options.quiet:
        print(f"{options.model}: no errors")


def _checked_library(options: argparse.Namespace) -> tuple[str, list[Diagnostic]]:
    """The metadata of a library as text, and everything that is wrong with it."""
    from tvm_nnef.cli.library_check import checked_library, described  # Imports the runtime.

    metadata, found = checked_library(options)
    return "" if metadata is None else f"{described(metadata)}\n", found


_ANNOTATIONS = {"error": "error", "warning": "warning", "note": "notice"}


def _annotation(found: Diagnostic) -> str:
    """A diagnostic as a workflow command of GitHub Actions, which annotates the source line."""
    places = {
        "file": found.path,
        "line": found.line,
        "col": found.column,
        "endLine": found.end_line,
        "endColumn": found.end_column,
        "title": "tvm-nnef",
    }
    properties = ",".join(
        f"{name}={_escaped(str(value), ':,')}"
        for name, value in places.items()
        if value is not None
    )
    message = found.message + (f"\nhint: {found.hint}" if found.hint else "")
    return f"::{_ANNOTATIONS[found.severity]} {properties}::{_escaped(printable(message))}"


def _escaped(text: str, further: str = "") -> str:
    """A text without the characters that end a part of a workflow command."""
    made = text.replace("%", "%25")
    for character in "\r\n" + further:
        made = made.replace(character, f"%{ord(character):02X}")
    return made
