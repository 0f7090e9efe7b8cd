"""Compiled libraries as files: written with a digest, verified before they are loaded.

Input: what TVM compiled, or a path. Output: a shared library, and beside it a parameter file if
there are large weights; or an archive of object files that are linked where it is loaded. Kinds of
files are detected from their content.

After the code a shared library has its metadata as JSON, and a line with their size and the digest
of all before. So its metadata are known before anything of it is mapped or executed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tvm_nnef.diagnostics import NnefError, error
from tvm_nnef.executable.library_kind import is_library, is_shared
from tvm_nnef.executable.linking import find_linker, link
from tvm_nnef.executable.metadata import check_machine, read_metadata
from tvm_nnef.executable.parameter_file import SUFFIX, Array, read_parameters
from tvm_nnef.storage.archive import GZIP_MAGIC, is_tar
from tvm_nnef.storage.container import open_files
from tvm_nnef.storage.manifest import MANIFEST, digest, file_digest, make_manifest, read_manifest
from tvm_nnef.storage.names import LIBRARY_FILE, LIBRARY_METADATA_FILE, SHARED_LIBRARIES
from tvm_nnef.storage.output import OutputPath, check_output, diagnosed, is_stream, replacing
from tvm_nnef.storage.write import Content, is_archive, is_compressed, write_archive

_PARAMETERS = LIBRARY_FILE + SUFFIX
"""The name of the parameter file in an archive."""

_TRAILER = b"\ntvm-nnef library, %12d bytes of metadata, sha256 of all before: %64s\n"
_TRAILER_PATTERN = re.compile(
    rb"\ntvm-nnef library, ([ \d]{12}) bytes of metadata, sha256 of all before: (\w{64})\n"
)
_TRAILER_SIZE = len(_TRAILER % (0, b""))

_OTHER_KINDS = {
    *(".a", ".o", ".obj", ".c", ".ll", ".bc", ".wasm", ".dll", ".dylib"),
    *(".zip", ".gz", ".bz2", ".xz", ".zst", ".7z", ".rar"),
    *(".onnx", ".sknd", ".dat", ".npy", ".npz", ".json", ".txt", ".py", ".svg", ".png"),
}
"""Suffixes of files that are not libraries which can be loaded."""


@dataclass(frozen=True, eq=False)
class LibraryFile:
    """A verified shared library on disk, its metadata, weights, and the folder that it may be in.

    ``weights`` are the content of its parameter file, if it has one. ``entry`` is a folder that
    :func:`write_entry` wrote, which has the object files as well.
    """

    path: Path
    metadata: str
    weights: Array | None = None
    folder: _TemporaryFolder | None = None
    entry: Path | None = None


@dataclass(frozen=True, eq=False)
class CompiledFiles:
    """The compiled parts from which the files of a library are written."""

    library: Any
    metadata: str
    weights: Array | None = None


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


def write_library(path: OutputPath, source: LibraryFile | CompiledFiles) -> None:
    """Write a library to a file: an archive if the suffix is ``.tar``, ``.tgz`` or ``.tar.gz``.

    The large weights of a shared library go to a second file. Raises :class:`NnefError`.
    """
    triple = None
    if isinstance(source, CompiledFiles):
        triple = str(json.loads(source.metadata)["target"]["triple"])
        check_library(path, triple=triple)
    if source.weights is not None and is_stream(path):
        hint = "give the name of a file"
        raise error("a library with a parameter file is not one stream", hint=hint, file=str(path))
    with replacing(path) as draft, tempfile.TemporaryDirectory(dir=draft.parent) as folder:
        if is_archive(path) and isinstance(source, LibraryFile) and source.entry is not None:
            parts = _entry_parts(source.entry)
        else:
            parts = _parts(source, Path(folder))
        if is_archive(path):
            _write_archive(draft, parts, compressed=is_compressed(path))
            return
        library = Path(folder) / LIBRARY_FILE
        if isinstance(source, CompiledFiles):
            objects = [part for part in parts if part.suffix == ".o"]
            _link(objects, library, source.metadata, triple)
        if source.weights is not None:
            beside = parameter_path(path)
            with replacing(beside) as other:
                (Path(folder) / _PARAMETERS).replace(other)
        library.replace(draft)


def parameter_path(path: OutputPath) -> Path:
    """The parameter file of a shared library."""
    file = Path(path).resolve()
    return file.with_name(file.name + SUFFIX)


def _write_archive(path: Path, parts: list[Path], *, compressed: bool) -> None:
    digests = {part.name: file_digest(part) for part in parts}
    files: dict[str, Content] = {MANIFEST: make_manifest(digests)}
    files.update((part.name, part.read_bytes) for part in parts)
    write_archive(path, files, compressed=compressed)


def read_library(path: OutputPath) -> LibraryFile:
    """The verified shared library in a file, linked from the object files of an archive.

    Raises :class:`NnefError` for a file that is not a library, is not as it was written, or is for
    another machine or version, and if its parameter file is missing or is not as it was written.
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
            return _unpacked(file, str(path))
        if not head.startswith(SHARED_LIBRARIES):
            raise _not_a_library(path, "its content is something else")
        return _opened(file, str(path))
    except (OSError, ValueError) as cause:
        reason = getattr(cause, "strerror", None) or str(cause)
        raise _not_a_library(path, reason) from None


def write_entry(folder: Path, source: CompiledFiles) -> None:
    """Write a library and the object files that it was linked from into an empty folder.

    Raises :class:`NnefError` if no linker is installed, and OSError.
    """
    triple = str(json.loads(source.metadata)["target"]["triple"])
    find_linker(triple)
    parts = _parts(source, folder)
    digests = {part.relative_to(folder).as_posix(): file_digest(part) for part in parts}
    (folder / MANIFEST).write_bytes(make_manifest(digests))
    objects = [part for part in parts if part.suffix == ".o"]
    _link(objects, folder / LIBRARY_FILE, source.metadata, triple)


def read_entry(folder: Path) -> LibraryFile:
    """The verified library in a folder that :func:`write_entry` wrote.

    Raises :class:`NnefError` or OSError for one that is missing, damaged or for another machine.
    """
    return replace(_opened(folder / LIBRARY_FILE, str(folder)), entry=folder)


def _entry_parts(folder: Path) -> list[Path]:
    """The verified parts of an archive in a folder that :func:`write_entry` wrote."""
    digests = read_manifest((folder / MANIFEST).read_bytes()) or {}
    parts = {folder / name: digest for name, digest in digests.items()}
    if not parts or any(file_digest(part) != digest for part, digest in parts.items()):
        raise _not_a_library(folder, "its files were changed; build the model again")
    return list(parts)


def described_library(path: OutputPath) -> str | None:
    """The verified metadata of a library for any machine; None for another kind of file.

    Raises :class:`NnefError` for a library that is not as it was written.
    """
    if not is_library(path):
        return None
    file = Path(path)
    if is_shared(file):
        return _verified_metadata(file, str(path))
    folder = _extracted(file)
    described = folder.path / LIBRARY_METADATA_FILE
    if described.exists():
        return described.read_text(encoding="utf-8")
    return _verified_metadata(folder.path / LIBRARY_FILE, str(path))


def inspect_library(path: OutputPath) -> Mapping[str, Any]:
    """The metadata of a library, which may be for another machine.

    Raises :class:`NnefError` for all else because of which ``load`` would refuse it.
    """
    try:
        text = described_library(path)
        if text is None:
            raise _not_a_library(path, "its content is something else")
        metadata = read_metadata(text)
        if is_shared(Path(path)):
            _weights_beside(Path(path).resolve(), metadata, str(path))
    except (OSError, ValueError) as cause:
        raise _not_a_library(path, getattr(cause, "strerror", None) or str(cause)) from None
    return metadata


def _opened(file: Path, name: str, folder: _TemporaryFolder | None = None) -> LibraryFile:
    """A shared library that this machine can run, under the name that the user gave."""
    text = _verified_metadata(file, name)
    weights = _weights_beside(file, _checked(text, name), name)
    return LibraryFile(file, text, weights, folder)


def _checked(text: str, name: str) -> Mapping[str, Any]:
    metadata = read_metadata(text)
    check_machine(metadata, name)
    return metadata


def _weights_beside(file: Path, metadata: Mapping[str, Any], name: str) -> Array | None:
    described = metadata["weights"]
    return described and read_parameters(parameter_path(file), described, name)


def _parts(source: LibraryFile | CompiledFiles, folder: Path) -> list[Path]:
    """The files that a library consists of, in a folder: what is written into an archive."""
    found = []
    if source.weights is not None:
        found.append(folder / _PARAMETERS)
        source.weights.tofile(found[0])
    if isinstance(source, CompiledFiles):
        metadata = folder / LIBRARY_METADATA_FILE
        metadata.write_text(source.metadata, encoding="utf-8")
        from tvm_nnef.executable.objects import write_objects  # Imports the compiler's parts.

        objects = folder / "objects"
        objects.mkdir()
        return [*found, metadata, *write_objects(source.library, objects)]
    copy = folder / LIBRARY_FILE
    shutil.copyfile(source.path, copy)
    if _verified_metadata(copy, str(source.path)) != source.metadata:
        raise _not_a_library(source.path, "it was replaced after it was loaded")
    return [*found, copy]


def _link(objects: list[Path], library: Path, metadata: str, triple: str | None = None) -> None:
    """Link object files to a shared library, and append its metadata and digest."""
    link(objects, library, triple)
    text = metadata.encode()
    with library.open("ab") as stream:
        stream.write(text)
    with library.open("ab") as stream:
        stream.write(_TRAILER % (len(text), file_digest(library).encode()))


def _verified_metadata(file: Path, name: str) -> str:
    """The metadata of a shared library; NnefError if it is not as it was written."""
    size = max(0, file.stat().st_size - _TRAILER_SIZE)
    with file.open("rb") as stream:
        stream.seek(size)
        trailer = _TRAILER_PATTERN.fullmatch(stream.read())
        if trailer is None:
            reason = "it is incomplete, or Executable.export of this version did not write it"
            raise _not_a_library(name, reason)
        if trailer[2] != file_digest(file, size).encode():
            raise _not_a_library(
                name, "it is damaged: its content was changed after it was written"
            )
        stream.seek(size - int(trailer[1]))
        return stream.read(int(trailer[1])).decode()


def _extracted(file: Path) -> _TemporaryFolder:
    """The verified files of an archive in a temporary folder."""
    archive = open_files(file)
    digests = read_manifest(archive.read(MANIFEST)) if archive.exists(MANIFEST) else None
    names = [name for name in archive.names() if name != MANIFEST]
    if not names or digests is None or set(digests) != set(names) or any("/" in n for n in names):
        raise _not_a_library(file, "the archive is not one of a library")
    if LIBRARY_FILE not in names and LIBRARY_METADATA_FILE not in names:
        raise _not_a_library(file, "Executable.export of this version did not write it")
    folder = _TemporaryFolder()
    for name in names:
        data = archive.read(name)
        if digest(data) != digests[name]:
            raise _not_a_library(file, f"it is damaged: '{name}' was changed after it was written")
        with diagnosed(folder.path / name):
            (folder.path / name).write_bytes(data)
    return folder


def _unpacked(file: Path, given: str) -> LibraryFile:
    """The library in an archive, in a temporary folder."""
    folder = _extracted(file)
    library = folder.path / LIBRARY_FILE
    if not library.exists():
        text = (folder.path / LIBRARY_METADATA_FILE).read_text(encoding="utf-8")
        _checked(text, given)
        _link(sorted(folder.path.glob("*.o")), library, text)
    return _opened(library, given, folder)


def _not_a_library(path: OutputPath, reason: str) -> NnefError:
    hint = "load reads what Executable.export wrote, for the same kind of machine"
    return error(f"cannot load '{os.fspath(path)!s}': {reason}", hint=hint)
