"""Writing of named files as a model folder or archive on disk, whole or not at all.

Input: names with their bytes. Output: a folder, or a ``.tar``, ``.tgz`` or ``.tar.gz`` file whose
bytes depend only on the files. The meaning of the files is unknown here.
"""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, TypeAlias

from tvm_nnef.diagnostics import error
from tvm_nnef.storage.manifest import MANIFEST, digest, file_digest, make_manifest, read_manifest
from tvm_nnef.storage.names import MAIN_FILE, METADATA_FILE, member_name
from tvm_nnef.storage.output import (
    OutputPath,
    check_output,
    check_parent,
    diagnosed,
    is_stream,
    replace_folder,
    replacing,
    workspace,
)

Content: TypeAlias = "bytes | Callable[[], bytes]"
"""A file's bytes, or a function that returns them when they are needed."""

_COMPRESSED = (".tgz", ".tar.gz")
ARCHIVE_SUFFIXES = (".tar", *_COMPRESSED)
_OTHER_ARCHIVES = (".zip", ".gz", ".bz2", ".xz", ".zst", ".7z", ".rar", ".tbz", ".txz")


def write_container(
    path: OutputPath, files: Mapping[str, Content], *, overwrite: bool = False
) -> None:
    """Write files, by their names, as a folder, or as an archive if the suffix says so.

    Everything is written next to the target first and then renamed, so that a failure leaves the
    old content. ``main.sknd`` is first, the others are ordered by name. See :func:`check_target`
    for the folders that are replaced. Raises :class:`NnefError` for names that point outside, and
    for a target that cannot be written. Exceptions of a content function are passed on, except an
    OSError, which counts as the target's.
    """
    check_target(path, overwrite=overwrite)
    ordered = _ordered(files, str(path))
    if is_archive(path):
        with replacing(path) as draft:
            write_archive(draft, ordered, compressed=is_compressed(path))
        return
    target = Path(path).resolve()
    with diagnosed(path), workspace(target.parent) as space:
        fresh = space / "new"
        _write_folder(fresh, ordered)
        _keep_unfamiliar(target, fresh)
        replace_folder(target, fresh, space)


def check_target(path: OutputPath, *, overwrite: bool = False) -> None:
    """Check that a model can be written to a path, before the work that creates it.

    An existing folder is replaced if this program wrote it and its files were not changed since, as
    its manifest shows, or with ``overwrite``. Files in it that are not part of the model are never
    removed. Raises :class:`NnefError`.
    """
    name = os.fspath(path)
    if is_archive(path):
        check_output(path)
        return
    if not name:
        raise error("the name of the model to write is empty", hint="give it a name")
    check_parent(path)
    target = Path(path).resolve()
    if name == "-" or is_stream(path):
        hint = "write it to a folder or to an archive (.tar, .tgz)"
        raise error("a model folder cannot be written to a stream", hint=hint, file=name)
    if target.suffix.lower() in _OTHER_ARCHIVES and not target.is_dir():
        hint = "an archive has the suffix '.tar', '.tgz' or '.tar.gz', a folder any other one"
        raise error(f"a model cannot be written as '{target.suffix}'", hint=hint, file=name)
    if target.is_file():
        hint = "an archive has the suffix '.tar' or '.tgz'"
        raise error("expected a folder to write the model into, this is a file",
                    hint=hint, file=name)  # fmt: skip
    if target.is_dir() and not overwrite:
        with diagnosed(path):
            _check_unchanged(target, name)


def is_archive(path: OutputPath) -> bool:
    """Whether the name of an output is that of an archive."""
    return os.fspath(path).endswith(ARCHIVE_SUFFIXES)


def is_compressed(path: OutputPath) -> bool:
    """Whether the name of an output is that of a compressed archive."""
    return os.fspath(path).endswith(_COMPRESSED)


def write_archive(path: Path, files: Mapping[str, Content], *, compressed: bool) -> None:
    """Write files into a new archive, in their order; equal files give equal bytes."""
    with path.open("wb") as stream:
        if not compressed:
            _write_tar(stream, files)
            return
        with gzip.GzipFile(filename="", fileobj=stream, mode="wb", mtime=0) as packed:
            _write_tar(packed, files)


def _ordered(files: Mapping[str, Content], path: str) -> dict[str, Content]:
    plain = {member_name(name, path): content for name, content in files.items()}
    if len(plain) != len(files) or "" in plain:
        raise error(
            "two files of the model have the same name, or one has none",
            hint="names are compared without './'",
            file=path,
        )
    return {name: plain[name] for name in sorted(plain, key=lambda name: (name != MAIN_FILE, name))}


def _check_unchanged(target: Path, path: str) -> None:
    """Raises NnefError if a folder holds anything but files that this program wrote."""
    written = _manifest(target) or {}
    for name in _names(target):
        if name not in written:
            cause = f"the folder holds '{name}', which this program did not write"
        elif file_digest(target / name) != written[name]:
            cause = f"'{name}' in the folder was changed since this program wrote it"
        else:
            continue
        hint = "choose another folder, or replace the model with overwrite=True (--overwrite)"
        raise error(f"cannot be written: {cause}", hint=hint, file=path)


def _manifest(folder: Path) -> dict[str, str] | None:
    with suppress(FileNotFoundError):
        return read_manifest((folder / MANIFEST).read_bytes())
    return None


def _names(folder: Path) -> Iterator[str]:
    """Yield the names of all files and links in a folder, in order, except for its manifest."""
    names = [
        (Path(root) / name).relative_to(folder).as_posix()
        for root, folders, files in os.walk(folder)
        for name in (*files, *(each for each in folders if (Path(root) / each).is_symlink()))
    ]
    return (name for name in sorted(names) if name != MANIFEST)


def _keep_unfamiliar(target: Path, fresh: Path) -> None:
    """Copy to a new folder those files of the replaced one that are not part of a model."""
    if not target.is_dir():
        return
    replaced = {MAIN_FILE, METADATA_FILE, *(_manifest(target) or ())}
    for name in _names(target):
        copy = fresh / name
        if name in replaced or copy.exists():
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        os.link(target / name, copy, follow_symlinks=False)


def _bytes_of(content: Content) -> bytes:
    return content if isinstance(content, bytes) else content()


def _write_folder(folder: Path, files: Mapping[str, Content]) -> None:
    folder.mkdir()
    digests = {}
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = _bytes_of(content)
        path.write_bytes(data)
        digests[name] = digest(data)
    (folder / MANIFEST).write_bytes(make_manifest(digests))


def _write_tar(stream: BinaryIO | gzip.GzipFile, files: Mapping[str, Content]) -> None:
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in files.items():
            data = _bytes_of(content)
            info = tarfile.TarInfo(name)
            info.size, info.mode, info.mtime = len(data), 0o644, 0
            archive.addfile(info, io.BytesIO(data))
