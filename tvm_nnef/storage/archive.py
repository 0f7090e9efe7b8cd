"""The index of a tar archive, plain or compressed: an open file in, checked members out.

Nothing is extracted, and nothing in the archive is trusted: names, kinds, number and sizes of
members are checked before any of them is read. Which of them is a model is for ``container``.
"""

from __future__ import annotations

import gzip
import tarfile
import zlib
from dataclasses import dataclass
from typing import BinaryIO

from tvm_nnef.diagnostics import NnefError, error
from tvm_nnef.storage.names import member_name

MAX_MEMBERS = 100_000
"""Files that one model may have."""

MAX_UNPACKED = 1 << 30
MAX_RATIO = 100
"""A compressed archive may unpack to 1 GiB, or to 100 times its own size if that is more."""

GZIP_MAGIC = b"\x1f\x8b"

_BLOCK = 512
_CHUNK = 1 << 20
_DAMAGED = (
    tarfile.TarError,
    OSError,
    zlib.error,
    EOFError,
    ValueError,
    OverflowError,
    RecursionError,
)
"""What the standard library raises for damaged archives; a chain of headers ends in recursion."""


@dataclass(frozen=True, slots=True)
class Member:
    """A regular file in an archive: where its bytes start, and how many they are."""

    name: str
    offset: int
    size: int


def is_tar(head: bytes) -> bool:
    """Whether the first bytes of a file (512 are enough) are those of a tar archive."""
    if head[257:262] == b"ustar":
        return True
    try:
        tarfile.TarInfo.frombuf(head[:_BLOCK], "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


def unpack_gzip(stream: BinaryIO, packed_size: int, file: str) -> bytes:
    """The unpacked content of a gzip stream of ``packed_size`` bytes.

    Raises :class:`NnefError` for damaged data, and as soon as it grows beyond what
    ``MAX_UNPACKED`` and ``MAX_RATIO`` allow.
    """
    limit = max(MAX_UNPACKED, MAX_RATIO * packed_size)
    unpacked = bytearray()
    try:
        with gzip.GzipFile(fileobj=stream, mode="rb") as plain:
            while chunk := plain.read(_CHUNK):
                unpacked += chunk
                if len(unpacked) > limit:
                    raise error(
                        f"the archive has {packed_size} bytes and unpacks to more than {limit}",
                        hint="if you trust it, unpack it yourself and give the folder",
                        file=file,
                    )
    except _DAMAGED as cause:
        raise _damaged(cause, file) from cause
    return bytes(unpacked)


def index_tar(stream: BinaryIO, size: int, file: str) -> dict[str, Member]:
    """The regular files of a tar archive of ``size`` bytes, by their plain names, in order.

    Folders are left out. Raises :class:`NnefError`, naming the member, for names that point
    outside, links, devices, sparse files, names given twice, too many members, and members or an
    archive cut off.
    """
    members: dict[str, Member] = {}
    try:
        with tarfile.open(fileobj=_Bounded(stream, size), mode="r:") as archive:  # type: ignore[call-overload]
            for count, info in enumerate(archive):
                if count >= MAX_MEMBERS:
                    raise _too_many(file)
                _add_member(members, info, size, file)
            end = archive.offset
    except _DAMAGED as cause:
        raise _damaged(cause, file) from cause
    # tarfile takes a damaged header in the middle for the end; only a block of zeros is one.
    stream.seek(min(end, size))
    if stream.read(_BLOCK).strip(b"\0") or end >= size:
        raise _damaged("no end mark behind the last member", file)
    return members


def _add_member(members: dict[str, Member], info: tarfile.TarInfo, size: int, file: str) -> None:
    name = member_name(info.name, file)
    if info.isdir():
        return
    fault = _fault(info, name, size)
    if name in members:
        fault = "stands twice in the archive"
    if fault:
        raise error(
            f"the member {info.name!r} {fault}",
            hint="pack the model again, as plain files",
            file=file,
        )
    members[name] = Member(name, info.offset_data, info.size)


def _fault(info: tarfile.TarInfo, name: str, size: int) -> str | None:
    """What speaks against a member, in the words of a message."""
    if info.issym() or info.islnk():
        return f"is a link, to {info.linkname!r}"
    if not info.isreg() or info.issparse():
        return "is no regular file"
    if not name:
        return "has no name"
    if info.size < 0 or info.offset_data + info.size > size:
        return f"is cut off: it has {info.size} bytes, more than the archive has left"
    return None


def _too_many(file: str) -> NnefError:
    return error(
        f"the archive has more than {MAX_MEMBERS} members",
        hint="a model has one file per module and one per variable",
        file=file,
    )


def _damaged(cause: object, file: str) -> NnefError:
    return error(
        f"the archive is damaged or cut off ({str(cause).strip() or type(cause).__name__})",
        hint="copy or pack it again; a model may also be given as a folder",
        file=file,
    )


@dataclass(frozen=True, slots=True)
class _Bounded:
    """The part of a binary file that tarfile needs, which never reads beyond ``size``.

    A header may ask for any number of bytes, and a file object would make room for all of them.
    """

    stream: BinaryIO
    size: int

    def read(self, count: int) -> bytes:
        return self.stream.read(max(0, min(count, self.size - self.stream.tell())))

    def seek(self, offset: int) -> int:
        return self.stream.seek(offset)

    def tell(self) -> int:
        return self.stream.tell()
