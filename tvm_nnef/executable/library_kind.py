"""Which files are libraries, by their content; nothing of what reads and runs them is imported."""

from __future__ import annotations

from pathlib import Path

from tvm_nnef.diagnostics import NnefError
from tvm_nnef.storage.archive import GZIP_MAGIC, is_tar
from tvm_nnef.storage.container import open_files
from tvm_nnef.storage.manifest import MANIFEST
from tvm_nnef.storage.names import LIBRARY_FILE, LIBRARY_METADATA_FILE, SHARED_LIBRARIES
from tvm_nnef.storage.output import OutputPath


def is_library(path: OutputPath) -> bool:
    """Whether a file is a shared library, or an archive that ``Executable.export`` wrote."""
    try:
        file = Path(path)
        if not file.is_file():
            return False
        with file.open("rb") as stream:
            head = stream.read(512)
        if not (head.startswith(GZIP_MAGIC) or is_tar(head)):
            return head.startswith(SHARED_LIBRARIES)
        names = set(open_files(file).names())
        return MANIFEST in names and not names.isdisjoint((LIBRARY_METADATA_FILE, LIBRARY_FILE))
    except (OSError, ValueError, NnefError):
        return False


def is_shared(file: Path) -> bool:
    """Whether a file is a shared library. Raises OSError if it cannot be read."""
    with file.open("rb") as stream:
        return stream.read(8).startswith(SHARED_LIBRARIES)
