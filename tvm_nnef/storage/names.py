"""Names inside a model: the files of variables, and the valid names in a container.

Input and output: text; no file is accessed here.
"""

from __future__ import annotations

import re

from tvm_nnef.diagnostics import error

MAIN_FILE = "main.sknd"
METADATA_FILE = "model.json"
NNEF1_FILE = "graph.nnef"
FOLDER_FILES = (MAIN_FILE, NNEF1_FILE)
"""Files whose path means the folder around them."""

SHARED_LIBRARIES = (b"\x7fELF", b"MZ", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")
"""The first bytes of shared libraries: of Linux, of Windows, and two kinds of macOS."""

LIBRARY_FILE = "library.so"
LIBRARY_METADATA_FILE = "metadata.json"
"""The name of the metadata of object files in an archive; a shared library has it inside."""

_DRIVE = re.compile(r"[A-Za-z]:[\\/]")


def variable_file_name(full_name: str) -> str:
    """Return the file of a variable: ``main.Net.w`` is stored in ``main.Net.w.dat``.

    Items of a pack keep their number: ``main.Net.p:1`` is in ``main.Net.p:1.dat``.
    """
    return f"{full_name}.dat"


def member_name(name: str, file: str) -> str:
    """Return the plain form of a name inside a container: relative, with ``/``, without ``.``
    parts.

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
