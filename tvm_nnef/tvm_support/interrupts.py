"""Interrupts that wait until TVM has put its own objects in order."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def interrupts_deferred() -> Iterator[None]:
    """Yield; handle the first interrupt when the block ends, and a second one at once.

    A rewriting pass of Relax that an interrupt ends leaves blocks open, of which TVM warns on
    standard error. Only the main thread gets interrupts; elsewhere this does nothing, nor where
    interrupts are ignored.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    seen: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        seen.append(number)
        if len(seen) > 1:
            handler(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if len(seen) == 1:
            handler(signal.SIGINT, None)


def deferring(run: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a pass of Relax that ends before interrupts are handled: TVM warns of blocks left
    open.
    """

    def whole(mod: Any) -> Any:
        with interrupts_deferred():
            return run(mod)

    return whole
