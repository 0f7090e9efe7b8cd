"""Read-only access to a model as named files, independent of its storage.

Input: a folder, a tar archive (plain or gzip), a single SkriptND file, or SkriptND text. Output: a
:class:`Container`. The kind is detected from the content. Nothing is extracted to disk, no file
stays open, and the meaning of the files is unknown here.
"""

from __future__ import annotations

import codecs
import errno
import io
import itertools
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from tvm_nnef.diagnostics import NnefError, Source, Span, did_you_mean, error
from tvm_nnef.storage.archive import (
    GZIP_MAGIC,
    MAX_MEMBERS,
    Member,
    index_tar,
    is_tar,
    unpack_gzip,
)
from tvm_nnef.storage.manifest import MANIFEST
from tvm_nnef.storage.names import FOLDER_FILES, MAIN_FILE, NNEF1_FILE, member_name

ModelPath: TypeAlias = "str | os.PathLike[str]"

TEXT_PATH = "<text>"
"""The name of a model given as text, in messages."""

MAX_TEXT_SIZE = 16 << 20
"""Upper limit of the bytes of a text: a module, or ``model.json``."""


class Container(ABC):
    """A model as named files.

    ``path`` is the model's name in messages, ``main`` the name of the main module's file (None
    if there is none). Names are relative and use ``/``.
    """

    path: str
    main: str | None

    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """Return the names of all files, sorted."""

    def near_names(self) -> tuple[str, ...]:
        """Return the names of some files, for hints: not those deep in a large folder."""
        return self.names()

    @abstractmethod
    def exists(self, name: str) -> bool:
        """Whether a file of that name is there."""

    @abstractmethod
    def size(self, name: str) -> int:
        """Return the size of a file in bytes; raise :class:`NnefError` if it is missing."""

    @abstractmethod
    def _read(self, name: str, count: int) -> bytes:
        """Return the first ``count`` bytes of an existing file, or all if it has fewer."""

    def location(self, name: str) -> str:
        """Return the name of a file in messages: ``model/main.sknd``, ``model.tgz/main.sknd``."""
        return f"{self.path}/{name}"

    def read(self, name: str, count: int | None = None) -> bytes:
        """Return a file's bytes, or the first ``count`` of them.

        Raises :class:`NnefError` for a missing or unreadable file, with the nearest name as hint.
        """
        size = self.size(name)
        return self._read(name, size if count is None else min(count, size))

    def read_source(self, name: str) -> Source:
        """Return a text file as a :class:`Source`, read as UTF-8, with or without a byte order
        mark.

        Raises :class:`NnefError` like :meth:`read_text`, and for other encodings.
        """
        return decode_source(self.read_text(name), self.location(name))

    def read_text(self, name: str) -> bytes:
        """Return the bytes of a text file.

        Raises :class:`NnefError` for a missing file, and for one of more than ``MAX_TEXT_SIZE``.
        """
        location = self.location(name)
        if (size := self.size(name)) > MAX_TEXT_SIZE:
            raise error(
                f"a text of {size} bytes; at most {MAX_TEXT_SIZE} are read",
                hint="values belong into '.dat' files",
                file=location,
            )
        return self.read(name)

    def _missing(self, name: str) -> NnefError:
        names = self.names()
        hint = did_you_mean(name, names)
        if hint is None:
            listed = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
            hint = f"the model holds: {listed or 'nothing'}"
        return error(f"the model has no file '{name}'", hint=hint, file=self.path)


@dataclass(frozen=True)
class _Folder(Container):
    path: str
    main: str | None

    def names(self) -> tuple[str, ...]:
        file_names: list[str] = []
        for name in _walk(Path(self.path)):
            if len(file_names) >= MAX_MEMBERS:
                raise error(
                    f"the folder holds more than {MAX_MEMBERS} files",
                    hint="give the folder of one model",
                    file=self.path,
                )
            file_names.append(name)
        return tuple(sorted(file_names))

    def near_names(self) -> tuple[str, ...]:
        root = Path(self.path)
        files = [*_files_in(root), *(f for each in _folders_in(root) for f in _files_in(each))]
        return tuple(sorted(each.relative_to(root).as_posix() for each in files))

    def exists(self, name: str) -> bool:
        path = Path(self.path) / member_name(name, self.path)
        try:
            is_file = path.is_file()
            inside = not is_file or path.resolve().is_relative_to(Path(self.path).resolve())
        except (OSError, ValueError) as cause:
            if getattr(cause, "errno", None) == errno.ENAMETOOLONG:
                return False
            raise _unreadable(path, cause) from cause
        if not inside:
            raise error(
                "a link that leads outside of the model folder is not followed",
                hint="copy the file into the folder",
                file=str(path),
            )
        return is_file

    def size(self, name: str) -> int:
        if not self.exists(name):
            raise self._missing(name)
        return (Path(self.path) / name).stat().st_size

    def location(self, name: str) -> str:
        return (Path(self.path) / name).as_posix()

    def _read(self, name: str, count: int) -> bytes:
        return _read_part(Path(self.path) / name, 0, count, self.location(name))


@dataclass(frozen=True)
class _Archive(Container):
    path: str
    main: str | None
    members: Mapping[str, Member] = field(repr=False)
    data: bytes | None = field(repr=False)
    """The content of a compressed archive; a plain one is read from its file."""

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self.members))

    def exists(self, name: str) -> bool:
        return member_name(name, self.path) in self.members

    def size(self, name: str) -> int:
        if not self.exists(name):
            raise self._missing(name)
        return self.members[member_name(name, self.path)].size

    def _read(self, name: str, count: int) -> bytes:
        offset = self.members[member_name(name, self.path)].offset
        if self.data is not None:
            return self.data[offset : offset + count]
        return _read_part(Path(self.path), offset, count, self.location(name))


@dataclass(frozen=True)
class _Single(Container):
    path: str
    main: str
    data: bytes = field(repr=False)

    def names(self) -> tuple[str, ...]:
        return (self.main,)

    def exists(self, name: str) -> bool:
        return name == self.main

    def size(self, name: str) -> int:
        if not self.exists(name):
            raise self._missing(name)
        return len(self.data)

    def location(self, name: str) -> str:
        return self.path

    def _read(self, name: str, count: int) -> bytes:
        return self.data[:count]


def open_container(model: ModelPath | Container) -> Container:
    """Open a SkriptND model: a folder, an archive, a ``.sknd`` file, or SkriptND text.

    A ``str`` with a line break, or with a brace if no file has that name, is a text. The path of a
    file named ``main.sknd`` means the folder around it; any other single file is a model of one
    module and has no ``.dat`` files. An archive may hold the model inside one leading folder.
    Raises :class:`NnefError` for a missing path, a damaged or hostile archive, and a folder without
    ``main.sknd``.
    """
    container = model if isinstance(model, Container) else open_files(model)
    if container.main is None:
        raise _no_main(container)
    return container


def open_files(model: ModelPath) -> Container:
    """Open whatever :func:`open_container` opens, and models of other kinds, as named files.

    ``main`` is None if there is no ``main.sknd``.
    """
    if isinstance(model, str) and is_text(model):
        return _Single(TEXT_PATH, MAIN_FILE, model.encode("utf-8", "surrogatepass"))
    path = Path(model)
    try:
        if path.is_dir():
            return _open_folder(path)
        if path.is_file():
            return _open_file(path)
        exists, is_link = path.exists(), path.is_symlink()
    except (OSError, ValueError) as cause:
        raise _unreadable(path, cause) from cause
    if exists:
        raise error("neither a file nor a folder", hint=_KINDS, file=str(model))
    if is_link:
        hint = "correct the link, or give the path of the model itself"
        raise error("a symbolic link that leads to no file or folder", hint=hint, file=str(model))
    raise error("no such file or folder", hint=_near(path), file=str(model))


def decode_source(data: bytes, file: str) -> Source:
    """Return a :class:`Source` of the bytes of a UTF-8 text; a byte order mark is dropped.

    Raises :class:`NnefError`, at the offending byte, for any other encoding.
    """
    plain = data.removeprefix(codecs.BOM_UTF8)
    try:
        return Source(file, plain.decode())
    except UnicodeDecodeError as cause:
        source = Source(file, plain.decode(errors="replace"))
        at = len(plain[: cause.start].decode())
        raise error(
            f"expected a text in UTF-8, got the byte {plain[cause.start]:#04x}",
            Span(source, at, at + 1),
            hint="save the text in the encoding UTF-8",
        ) from cause


_NEAR = 200
"""Upper limit of the entries of a folder that are examined for hints."""

_KINDS = "a model is a folder, a '.tar' or '.tgz' archive, or a '.sknd' file"


def _open_folder(path: Path) -> Container:
    main = MAIN_FILE if (path / MAIN_FILE).is_file() else None
    return _Folder(str(path), main)


def _open_file(path: Path) -> Container:
    if path.name in FOLDER_FILES:
        return _open_folder(path.parent)
    size = path.stat().st_size
    with path.open("rb") as stream:
        head = stream.read(512)
        stream.seek(0)
        if head.startswith(GZIP_MAGIC):
            data = unpack_gzip(stream, size, str(path))
            if not is_tar(data[:512]):
                hint = f"if it is another file of a model, unpack it ('gunzip'); {_KINDS}"
                raise error("the compressed file holds no tar archive", hint=hint, file=str(path))
            return _archive(path, index_tar(io.BytesIO(data), len(data), str(path)), data)
        if is_tar(head):
            return _archive(path, index_tar(stream, size, str(path)), None)
        _check_text(head, size, path)
        return _Single(str(path), path.name, stream.read())


def _archive(path: Path, members: Mapping[str, Member], data: bytes | None) -> Container:
    rooted = _without_leading_folder(members)
    return _Archive(str(path), MAIN_FILE if MAIN_FILE in rooted else None, rooted, data)


def _without_leading_folder(members: Mapping[str, Member]) -> Mapping[str, Member]:
    """Return members by their names inside the only folder that holds a model, if it is not the
    root.
    """
    marks = (MAIN_FILE, NNEF1_FILE)
    if any(mark in members for mark in marks):
        return members
    roots = {
        name.split("/")[0] for name in members if name.count("/") == 1 and _tail(name) in marks
    }
    if len(roots) != 1:
        return members
    lead = roots.pop() + "/"
    return {name[len(lead) :]: member for name, member in members.items() if name.startswith(lead)}


def _tail(name: str) -> str:
    return name.rsplit("/", 1)[-1]


def _check_text(head: bytes, size: int, path: Path) -> None:
    """Refuse a single file that is not a SkriptND text."""
    hint = None
    if head.startswith(b"PK\3\4"):
        hint = "zip archives are not read; unpack it and give the folder, or pack it as '.tgz'"
    elif b"\0" in head or size > MAX_TEXT_SIZE:
        hint = _KINDS
    if hint:
        raise error("this is not a SkriptND model", hint=hint, file=str(path))


def _entries(folder: Path) -> list[Path]:
    """Return some of the entries of a folder; none if it cannot be read."""
    try:
        return list(itertools.islice(folder.iterdir(), _NEAR))
    except OSError:
        return []


def _files_in(folder: Path) -> list[Path]:
    return [each for each in _entries(folder) if os.path.isfile(each)]  # noqa: PTH113


def _folders_in(folder: Path) -> list[Path]:
    return [each for each in _entries(folder) if os.path.isdir(each)][:_NEAR]  # noqa: PTH112


def _no_main(container: Container) -> NnefError:
    names = container.near_names()
    hint = did_you_mean(MAIN_FILE, names) or f"a model has its main module in '{MAIN_FILE}'"
    inner = next((name for name in names if _tail(name) == MAIN_FILE), None)
    if NNEF1_FILE in names:
        hint = _nnef1_hint(container.path)
    elif inner:
        hint = f"did you mean '{container.location(inner)}'?"
    return error(f"the model has no '{MAIN_FILE}'", hint=hint, file=container.path)


def _nnef1_hint(path: str) -> str:
    return f"this is an NNEF 1 model; convert it first: tvm-nnef convert '{path}' FOLDER"


def is_text(model: str) -> bool:
    """Whether a model is given as text: with a line break, or with a brace and not a path."""
    if any(end in model for end in "\r\n"):
        return True
    # Path.exists raises an error for a text that is too long for a name.
    return "{" in model and not os.path.exists(model)  # noqa: PTH110


def _near(path: Path) -> str:
    """Return a hint for a path that is not there: the nearest name beside it."""
    parent = path.parent
    try:
        near = did_you_mean(path.name, (entry.name for entry in parent.iterdir()))
    except (OSError, ValueError):
        return f"the folder '{parent}' is not there either"
    return near or f"{_KINDS}; a text has a line break or a brace"


def _walk(folder: Path) -> Iterator[str]:
    """Yield names of the regular files below a folder, except for hidden folders and the
    manifest.
    """
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in files:
            path = Path(root) / name
            if path.is_file() and name != MANIFEST:
                yield path.relative_to(folder).as_posix()


def _read_part(path: Path, offset: int, count: int, location: str) -> bytes:
    try:
        with path.open("rb") as stream:
            stream.seek(offset)
            data = stream.read(count)
    except OSError as cause:
        raise _unreadable(location, cause) from cause
    if len(data) != count:
        raise error(
            f"expected {count} bytes, got {len(data)}",
            hint="the file was changed while it was read; try again",
            file=location,
        )
    return data


def _unreadable(path: object, cause: Exception) -> NnefError:
    reason = getattr(cause, "strerror", None) or str(cause)
    return error(f"cannot be read: {reason}", hint="check its permissions", file=str(path))
