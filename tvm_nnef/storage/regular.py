"""Opening of files that are read whole: only regular ones, as a pipe would block and a device may
not end.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Return a regular file, opened for reading. Raises OSError if it is something else."""
    path = Path(path)
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise OSError("it is not a regular file")
    return path.open("rb")
