"""Names inside a model: which file holds a variable, and which names a container may have.

Text in, text out; nothing here touches a file.
"""

from __future__ import annotations

import re

from tvm_nnef.diagnostics import error

MAIN_FILE = "main.sknd"
METADATA_FILE = "model.json"
NNEF1_FILE = "graph.nnef"
FOLDER_FILES = (MAIN_FILE, NNEF1_FILE)
"""Files that stand for the folder around them."""

SHARED_LIBRARIES = (b"\x7fELF", b"MZ", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")
"""How shared libraries begin: of Linux, of Windows, and two kinds of macOS."""

LIBRARY_FILE = "library.so"
LIBRARY_METADATA_FILE = "metadata.json"
"""A shared library in an archive, and the metadata of object files in one."""

_DRIVE = re.compile(r"[A-Za-z]:[\\/]")


def variable_file_name(full_name: str) -> str:
    """The file of a variable: ``main.Net.w`` is stored in ``main.Net.w.dat``.

    Items of a pack keep their number: ``main.Net.p:1`` is in ``main.Net.p:1.dat``.
    """
    return f"{full_name}.dat"


def member_name(name: str, file: str) -> str:
    """The plain form of a name inside a container: relative, with ``/``, without ``.`` parts.

    The container itself has the empty name. Raises :class:`NnefError`, placed at ``file``, for a
    name that is absolute or leads outside.
    """
    parts = [part for part in re.split(r"[\\/]", name) if part not in ("", ".")]
    if name.startswith(("/", "\\")) or _DRIVE.match(name) or ".." in parts or "\0" in name:
        raise error(
            f"the name {name!r} points outside of the model",
            hint="names in a model are relative and have no '..'; pack the model again",
            file=file,
        )
    return "/".join(parts)
