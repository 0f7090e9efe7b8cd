"""``tvm-nnef format FILE…``: SkriptND texts in a uniform layout, with all their comments."""

from __future__ import annotations

import argparse
import codecs
import difflib
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tvm_nnef.converters.common.detection import HEAD, Candidate, is_onnx
from tvm_nnef.diagnostics import NnefError, error, plural, printable
from tvm_nnef.formats.other_kinds import other_kind
from tvm_nnef.stdlib.library import tools_names
from tvm_nnef.storage.container import MAX_TEXT_SIZE, decode_source
from tvm_nnef.storage.output import STANDARD_OUTPUT, write_file
from tvm_nnef.storage.regular import open_regular
from tvm_nnef.syntax import detect, format_text


def run(options: argparse.Namespace) -> int:
    """Rewrite files that are not laid out uniformly; 1 if one is wrong, or would change."""
    writes = not (options.check or options.diff)
    changed, failed, count = 0, False, 0
    for name in _files(options.files):
        count += 1
        try:
            before, after = _formatted(name, options.dialect)
            if writes and (after != before or name == STANDARD_OUTPUT):
                write_file(name, after)
        except NnefError as problem:
            print(problem, file=sys.stderr)
            failed = True
            continue
        if after != before:
            changed += 1
            if options.diff:
                _print_difference(name, before.decode(), after.decode())
            elif name != STANDARD_OUTPUT or not writes:
                print(f"{'formatted' if writes else 'would format'} {name}", file=sys.stderr)
    verb = "formatted" if writes else "would change"
    if options.files != [STANDARD_OUTPUT]:
        print(f"{plural(count, 'file')}, {changed} {verb}", file=sys.stderr)
    return int(failed or (changed > 0 and not writes))


def _files(names: Iterable[str]) -> Iterator[str]:
    """The files of a command line, those in folders included, each once."""
    found: dict[str, None] = {}
    for name in names:
        folder = Path(name)
        if name != STANDARD_OUTPUT and folder.is_dir():
            files = sorted(map(str, folder.rglob("*.sknd")))
            if not files:
                hint = "give .sknd files, or folders with such files"
                raise error("the folder has no .sknd files", hint=hint, file=name)
            found |= dict.fromkeys(files)
        else:
            found[name] = None
    return iter(found)


def _formatted(name: str, dialect: str) -> tuple[bytes, bytes]:
    """The content of a file, and what it should be."""
    data = _read(name)
    candidate = Candidate(name, data[:HEAD])
    if b"\0" in data or is_onnx(candidate):
        hint = "give .sknd files, or folders with such files"
        raise error("this is not a text", hint=hint, file=printable(name))
    if (other := other_kind(candidate)) is not None:
        raise error(f"this is {other[0]}", hint=other[1], file=printable(name))
    source = decode_source(data, "<stdin>" if name == STANDARD_OUTPUT else name)
    if dialect == "auto":
        dialect, _ = detect([source], tools_names())
    mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    return data, mark + format_text(source.text, source.path, dialect).encode()


def _read(name: str) -> bytes:
    try:
        if name == STANDARD_OUTPUT:
            data = sys.stdin.buffer.read(MAX_TEXT_SIZE + 1)
        else:
            with open_regular(name) as stream:
                data = stream.read(MAX_TEXT_SIZE + 1)
    except (OSError, ValueError) as cause:
        reason = getattr(cause, "strerror", None) or str(cause)
        hint = "check the path and its permissions"
        raise error(f"cannot be read: {reason}", hint=hint, file=printable(name)) from cause
    if len(data) > MAX_TEXT_SIZE:
        hint = "values belong into '.dat' files"
        raise error(f"the text has more than {MAX_TEXT_SIZE} bytes", hint=hint, file=name)
    return data


def _print_difference(name: str, before: str, after: str) -> None:
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), name, f"{name} (formatted)", lineterm=""
    )
    for line in lines:
        print(printable(line))
