"""The index of a tar archive, plain or compressed.

Input: an open file. Output: checked members. Nothing is extracted, and nothing in the archive is
trusted: names, kinds, number and sizes of members are checked before any of them is read.
``container`` decides which members are a model.
"""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from dataclasses import dataclass
from typing import BinaryIO

from tvm_nnef.diagnostics import NnefError, error
from tvm_nnef.storage.names import member_name

MAX_MEMBERS = 100_000
"""Upper limit of the files of a model."""

MAX_UNPACKED = 1 << 30
MAX_RATIO = 100
"""Upper limit of the unpacked size of a compressed archive: 1 GiB, or 100 times its own size."""

MAX_HEADER = 16 << 10
MAX_HEADERS = 16 << 20
"""Upper limit of the bytes of one extended header, and of all that do not fit into one block."""

MAX_GLOBAL = 64
"""Upper limit of the values in global extended headers: each member copies all of them."""

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
"""Exceptions that the standard library raises for damaged archives; a chain of headers ends in
recursion.
"""


@dataclass(frozen=True, slots=True)
class Member:
    """A regular file in an archive: the offset of its bytes, and their number."""

    name: str
    offset: int
    size: int


def is_archive(head: bytes) -> bool:
    """Whether a file begins like a tar archive or a compressed file."""
    return head.startswith(GZIP_MAGIC) or is_tar(head)


def is_tar(head: bytes) -> bool:
    """Whether a file begins like a tar archive (512 bytes are enough)."""
    if head[257:262] == b"ustar":
        return True
    try:
        tarfile.TarInfo.frombuf(head[:_BLOCK], "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


def unpack_gzip(stream: BinaryIO, packed_size: int, file: str) -> bytes:
    """Return the unpacked content of a gzip stream of ``packed_size`` bytes.

    Raises :class:`NnefError` for damaged data, and as soon as it grows beyond what
    ``MAX_UNPACKED`` and ``MAX_RATIO`` allow.
    """
    limit = max(MAX_UNPACKED, MAX_RATIO * packed_size)
    unpacked = io.BytesIO()
    try:
        with gzip.GzipFile(fileobj=stream, mode="rb") as plain:
            while chunk := plain.read(_CHUNK):
                unpacked.write(chunk)
                if unpacked.tell() > limit:
                    raise error(
                        f"the archive has {packed_size} bytes and unpacks to more than {limit}",
                        hint="if you trust it, unpack it yourself and give the folder",
                        file=file,
                    )
    except _DAMAGED as cause:
        raise _damaged(cause, file) from cause
    return unpacked.getvalue()


def index_tar(stream: BinaryIO, size: int, file: str) -> dict[str, Member]:
    """Return the regular files of a tar archive of ``size`` bytes, by their plain names, in order.

    Folders are left out. Raises :class:`NnefError`, naming the member, for names that point
    outside, links, devices, sparse files, names given twice, too many members, and members or an
    archive cut off.
    """
    members: dict[str, Member] = {}
    try:
        with tarfile.open(fileobj=_Headers(stream, size, file), mode="r:") as archive:  # type: ignore[call-overload]
            for count in range(MAX_MEMBERS + 1):
                info = archive.next()
                if info is None:
                    break
                if count == MAX_MEMBERS:
                    raise _too_many(file)
                if len(archive.pax_headers) > MAX_GLOBAL:
                    raise _too_large(f"more than {MAX_GLOBAL} values in global headers", file)
                _add_member(members, info, size, file)
                # Otherwise every header is kept, with its copy of the global values.
                archive.members.clear()
            end = archive.offset
    except _DAMAGED as cause:
        raise _damaged(cause, file) from cause
    # tarfile takes a damaged header in the middle for the end; only a block of zeros is one.
    stream.seek(min(end, size))
    if stream.read(_BLOCK).strip(b"\0") or end >= size:
        raise _damaged("no end mark after the last member", file)
    return members


def _add_member(members: dict[str, Member], info: tarfile.TarInfo, size: int, file: str) -> None:
    name = member_name(info.name, file)
    if info.isdir():
        return
    fault = _fault(info, name, size)
    if name in members:
        fault = "is twice in the archive"
    if fault:
        raise error(
            f"the member {info.name!r} {fault}",
            hint="pack the model again, as plain files",
            file=file,
        )
    members[name] = Member(name, info.offset_data, info.size)


def _fault(info: tarfile.TarInfo, name: str, size: int) -> str | None:
    """Return the reason to reject a member, in the words of a message; None if there is none."""
    if info.issym() or info.islnk():
        return f"is a link, to {info.linkname!r}"
    if not info.isreg() or info.issparse():
        return "is not a regular file"
    if not name:
        return "has no name"
    if info.size < 0 or info.offset_data + info.size > size:
        return f"is cut off: it has {info.size} bytes, more than the archive has left"
    return None


def _too_large(what: str, file: str) -> NnefError:
    return error(f"the archive has {what}", hint="pack the model again", file=file)


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


@dataclass(slots=True)
class _Headers:
    """The part of a binary file's interface that tarfile needs to read headers, with a limit of
    their size.

    A header may ask for any number of bytes, and a file object would allocate all of them.
    """

    stream: BinaryIO
    size: int
    file: str
    total: int = 0

    def read(self, count: int) -> bytes:
        left = max(0, min(count, self.size - self.stream.tell()))
        if left > _BLOCK:
            self.total += left
        if left > MAX_HEADER or self.total > MAX_HEADERS:
            raise _too_large("extended headers of an unusual size", self.file)
        return self.stream.read(left)

    def seek(self, offset: int) -> int:
        return self.stream.seek(offset)

    def tell(self) -> int:
        return self.stream.tell()
