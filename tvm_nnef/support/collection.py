"""Python's search for garbage, which takes a tenth of the time of a build, less often."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_NEW_OBJECTS = 50_000
"""Number of new objects that start a search; by default, Python starts one for some hundreds."""


@contextmanager
def rare_collection() -> Iterator[None]:
    """Search for garbage only rarely inside; what is built has much that lives, and few cycles."""
    before = gc.get_threshold()
    if not 0 < before[0] < _NEW_OBJECTS:  # Off, or rare already: maybe in another thread.
        yield
        return
    gc.set_threshold(_NEW_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
