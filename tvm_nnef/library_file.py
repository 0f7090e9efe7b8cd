"""Compiled libraries as files: written with a digest, verified before they are loaded.

Input: what TVM compiled, or a path. Output: a shared library, or an archive of object files that
are linked where it is loaded. Kinds of files are detected from their content.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvm_nnef.diagnostics import NnefError, error
from tvm_nnef.linking import find_linker, link
from tvm_nnef.storage.archive import GZIP_MAGIC, is_tar
from tvm_nnef.storage.container import open_files
from tvm_nnef.storage.manifest import MANIFEST, digest, file_digest, make_manifest, read_manifest
from tvm_nnef.storage.output import OutputPath, check_output, diagnosed, replacing
from tvm_nnef.storage.write import Content, is_archive, is_compressed, write_archive
from tvm_nnef.tvm_support import build

_SHARED = (b"\x7fELF", b"MZ", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")
"""How shared libraries begin: of Linux, of Windows, and two kinds of macOS."""

_LIBRARY = "library.so"
"""The name of a shared library in an archive."""

_MARK = b"\ntvm-nnef library, sha256 of all before: "
_TRAILER = len(_MARK) + 65
"""The size of what follows a shared library in its file: a line with its digest."""

_OTHER_KINDS = {
    *(".a", ".o", ".obj", ".c", ".ll", ".bc", ".wasm"),
    *(".zip", ".gz", ".bz2", ".xz", ".zst", ".7z", ".rar"),
    *(".onnx", ".sknd", ".dat", ".npy", ".npz", ".json", ".txt", ".py", ".svg", ".png"),
}
"""Suffixes of files that are not libraries which can be loaded."""


@dataclass(frozen=True, eq=False)
class LibraryFile:
    """A verified shared library on disk, and the temporary folder it may be in."""

    path: Path
    folder: _TemporaryFolder | None = None


class _TemporaryFolder:
    """A folder that is removed with this object, or at the end of the process."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=".tvm-nnef-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


def check_library(
    path: OutputPath, inputs: Iterable[OutputPath] = (), triple: str | None = None
) -> None:
    """Check that a library can be written to a path, before the work that makes it.

    ``triple`` is the target triple of the library, this machine's by default.

    Raises :class:`NnefError` for what :func:`check_output` refuses, for the suffix of another kind
    of file, and if nothing is installed that links a shared library for the target.
    """
    check_output(path, inputs)
    suffix = Path(path).suffix.lower()
    if is_archive(path):
        return
    if suffix in _OTHER_KINDS:
        hint = "name a shared library 'model.so', and an archive of object files 'model.tar'"
        raise error(f"a library cannot be written as '{suffix}'", hint=hint, file=str(path))
    find_linker(triple)


def write_library(path: OutputPath, source: LibraryFile | Any) -> None:
    """Write a library to a file: an archive if the suffix is ``.tar``, ``.tgz`` or ``.tar.gz``.

    ``source`` is a library that was loaded or that TVM compiled. Raises :class:`NnefError`.
    """
    triple = None
    if not isinstance(source, LibraryFile):
        triple = build.triple_of(source.target)
        check_library(path, triple=triple)
    with replacing(path) as draft, tempfile.TemporaryDirectory(dir=draft.parent) as folder:
        parts = _parts(source, Path(folder))
        if is_archive(path):
            digests = {part.name: file_digest(part) for part in parts}
            files: dict[str, Content] = {MANIFEST: make_manifest(digests)}
            files.update((part.name, part.read_bytes) for part in parts)
            write_archive(draft, files, compressed=is_compressed(path))
        elif isinstance(source, LibraryFile):
            parts[0].replace(draft)
        else:
            _link(parts, draft, triple)


def read_library(path: OutputPath) -> LibraryFile:
    """The verified shared library in a file, linked from the object files of an archive.

    Raises :class:`NnefError` for a file that is not a library, or is not as it was written.
    """
    try:
        file = Path(path).resolve()
        if not file.exists():
            raise error(f"there is no file '{path}'", hint="build writes a library: -o model.so")
        if not file.is_file():
            raise _not_a_library(path, "it is not a regular file")
        with file.open("rb") as stream:
            head = stream.read(512)
        if head.startswith(GZIP_MAGIC) or is_tar(head):
            return _unpacked(file)
        if not head.startswith(_SHARED):
            raise _not_a_library(path, "its content is something else")
        _verify(file, str(path))
        return LibraryFile(file)
    except (OSError, ValueError) as cause:
        reason = getattr(cause, "strerror", None) or str(cause)
        raise _not_a_library(path, reason) from None


def _parts(source: LibraryFile | Any, folder: Path) -> list[Path]:
    """The files that a library consists of: its object files, or a copy of a shared library."""
    if not isinstance(source, LibraryFile):
        return build.write_objects(source, folder)
    copy = folder / _LIBRARY
    shutil.copyfile(source.path, copy)
    _verify(copy, str(source.path))
    return [copy]


def _link(objects: list[Path], library: Path, triple: str | None = None) -> None:
    """Link object files to a shared library, and append its digest."""
    link(objects, library, triple)
    with library.open("ab") as stream:
        stream.write(_MARK + file_digest(library).encode() + b"\n")


def _verify(file: Path, name: str) -> None:
    """Raises NnefError for a shared library that is not as it was written."""
    size = file.stat().st_size - _TRAILER
    with file.open("rb") as stream:
        stream.seek(max(size, 0))
        trailer = stream.read()
    if not trailer.startswith(_MARK):
        raise _not_a_library(
            name, "it is incomplete, or Executable.export of this version did not write it"
        )
    if trailer[len(_MARK) : -1] != file_digest(file, size).encode():
        raise _not_a_library(name, "it is damaged: its content was changed after it was written")


def _unpacked(file: Path) -> LibraryFile:
    """The library in an archive, in a temporary folder."""
    archive = open_files(file)
    digests = read_manifest(archive.read(MANIFEST)) if archive.exists(MANIFEST) else None
    names = [name for name in archive.names() if name != MANIFEST]
    if not names or digests is None or set(digests) != set(names) or any("/" in n for n in names):
        raise _not_a_library(file, "the archive is not one of a library")
    folder = _TemporaryFolder()
    for name in names:
        data = archive.read(name)
        if digest(data) != digests[name]:
            raise _not_a_library(file, f"it is damaged: '{name}' was changed after it was written")
        with diagnosed(folder.path / name):
            (folder.path / name).write_bytes(data)
    library = folder.path / _LIBRARY
    if library.exists():
        _verify(library, str(file))
    else:
        _link([folder.path / name for name in names], library)
    return LibraryFile(library, folder)


def _not_a_library(path: OutputPath, reason: str) -> NnefError:
    hint = "load reads what Executable.export wrote, for the same kind of machine"
    return error(f"cannot load '{os.fspath(path)!s}': {reason}", hint=hint)
