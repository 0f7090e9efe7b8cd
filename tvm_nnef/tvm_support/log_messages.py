"""TVM's remarks about every weight, kept from the user's terminal.

TVM 0.27 writes a warning, ``Scope Saving:`` or ``Scope Loaded:``, for each constant that it stores
or loads; there is no switch. It writes to the descriptor of standard error, past Python.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_REMARKS = (b"Warning: Scope Saving:", b"Warning: Scope Loaded:")
_STANDARD_ERROR = 2
_one_at_a_time = threading.Lock()


@contextmanager
def without_messages_about_constants() -> Iterator[None]:
    """A context in which these lines do not reach standard error; all others do, when it ends."""
    with _one_at_a_time, tempfile.TemporaryFile() as caught:
        try:
            kept = os.dup(_STANDARD_ERROR)
        except OSError:  # A program without a standard error.
            yield
            return
        os.dup2(caught.fileno(), _STANDARD_ERROR)
        try:
            yield
        finally:
            os.dup2(kept, _STANDARD_ERROR)
            os.close(kept)
            caught.seek(0)
            lines = [line for line in caught if not any(each in line for each in _REMARKS)]
            os.write(_STANDARD_ERROR, b"".join(lines))
