"""Named files to a model folder or archive on disk, whole or not at all.

Enters: names with their bytes. Leaves: a folder, or a ``.tar``, ``.tgz`` or ``.tar.gz`` file with
bytes that depend on nothing but the files. What the files say is the caller's.
"""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TypeAlias

from tvm_nnef.diagnostics import error
from tvm_nnef.storage.names import MAIN_FILE, METADATA_FILE, member_name

Content: TypeAlias = "bytes | Callable[[], bytes]"
"""A file's bytes, or a function that gives them when it is their turn."""

_MODEL_SUFFIXES = (".sknd", ".dat")
_COMPRESSED = (".tgz", ".tar.gz")
_OTHER_ARCHIVES = (".zip", ".gz", ".bz2", ".xz", ".zst", ".7z", ".rar", ".tbz", ".txz")


def write_container(path: str | os.PathLike[str], files: Mapping[str, Content]) -> None:
    """Write files, by their names, as a folder, or as an archive where the suffix says so.

    Everything is written beside the target first and takes its place by renaming, so that a
    failure leaves what was there before. ``main.sknd`` comes first, the others follow by name.
    A folder is replaced only if it holds nothing besides a model's files (``*.sknd``, ``*.dat``,
    ``model.json``) and the names to be written. Raises :class:`NnefError` for names that point
    outside, and for a target that cannot be written. What a content function raises is passed on,
    save an OSError, which counts as the target's.
    """
    if "\0" in str(path):
        raise error("a path cannot hold a zero byte", hint="choose another name", file=str(path))
    ordered = _ordered(files, str(path))
    try:
        target = Path(path).resolve()
        archive = target.name.endswith((".tar", *_COMPRESSED))
        _check_target(target, archive, ordered, str(path))
        with _workspace(target) as fresh:
            if archive:
                _write_archive(fresh, target.name.endswith(_COMPRESSED), ordered)
            else:
                _write_folder(fresh, ordered)
            _replace(target, fresh)
    except OSError as cause:
        raise error(
            f"cannot be written: {cause.strerror or cause}",
            hint="see to the permissions and the free space of the disk",
            file=str(path),
        ) from cause


def _ordered(files: Mapping[str, Content], path: str) -> dict[str, Content]:
    plain = {member_name(name, path): content for name, content in files.items()}
    if len(plain) != len(files) or "" in plain:
        raise error(
            "two files of the model have the same name, or one has none",
            hint="names are compared without './'",
            file=path,
        )
    return {name: plain[name] for name in sorted(plain, key=lambda name: (name != MAIN_FILE, name))}


def _check_target(target: Path, archive: bool, files: Mapping[str, Content], path: str) -> None:
    if not target.parent.is_dir():
        raise error(
            "cannot be written: the folder around it does not exist",
            hint=f"make the folder '{target.parent}' first",
            file=path,
        )
    if not archive and target.suffix.lower() in _OTHER_ARCHIVES and not target.is_dir():
        raise error(
            f"a model cannot be written as '{target.suffix}'",
            hint="an archive has the suffix '.tar', '.tgz' or '.tar.gz', a folder any other one",
            file=path,
        )
    if not archive and target.is_file():
        raise error(
            "expected a folder to write the model into, this is a file",
            hint="an archive has the suffix '.tar' or '.tgz'",
            file=path,
        )
    if target.is_dir():
        _check_replaceable(target, archive, files, path)


def _check_replaceable(
    target: Path, archive: bool, files: Mapping[str, Content], path: str
) -> None:
    if archive:
        raise error("expected an archive, this is a folder", hint="choose another name", file=path)
    if foreign := next(_foreign(target, files), None):
        raise error(
            f"the folder holds '{foreign}', which is no part of the model and would be lost",
            hint="write the model into a folder of its own",
            file=path,
        )


def _foreign(target: Path, files: Mapping[str, Content]) -> Iterator[str]:
    """Names in an existing folder that replacing it would lose for good."""
    for root, folders, names in os.walk(target):
        inside = Path(root).relative_to(target)
        links = [name for name in folders if (Path(root) / name).is_symlink()]
        for name in sorted([*names, *links]):
            full = (inside / name).as_posix()
            known = full in files or full == METADATA_FILE or name.endswith(_MODEL_SUFFIXES)
            if not known or name in links:
                yield full


@contextmanager
def _workspace(target: Path) -> Iterator[Path]:
    """A path beside the target to write at; what is left there in the end is removed."""
    prefix = f".{target.name[:32]}."
    with tempfile.TemporaryDirectory(prefix=prefix, dir=target.parent) as folder:
        yield Path(folder) / "new"


def _replace(target: Path, fresh: Path) -> None:
    if not target.is_dir():
        fresh.replace(target)
        return
    old = fresh.with_name("old")
    target.rename(old)
    try:
        fresh.rename(target)
    except OSError:
        old.rename(target)
        raise


def _bytes_of(content: Content) -> bytes:
    return content if isinstance(content, bytes) else content()


def _write_folder(folder: Path, files: Mapping[str, Content]) -> None:
    folder.mkdir()
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_bytes_of(content))


def _write_archive(path: Path, compressed: bool, files: Mapping[str, Content]) -> None:
    with path.open("wb") as stream:
        if not compressed:
            _write_tar(stream, files)
            return
        # A fixed time and no name: equal models give equal bytes.
        with gzip.GzipFile(filename="", fileobj=stream, mode="wb", mtime=0) as packed:
            _write_tar(packed, files)


def _write_tar(stream: BinaryIO | gzip.GzipFile, files: Mapping[str, Content]) -> None:
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in files.items():
            data = _bytes_of(content)
            info = tarfile.TarInfo(name)
            info.size, info.mode, info.mtime = len(data), 0o644, 0
            archive.addfile(info, io.BytesIO(data))
