"""Numbers in environment variables; one that is not a number is reported once."""

from __future__ import annotations

import functools
import os

from tvm_nnef.diagnostics import warn


def whole_number(name: str, least: int, *, first_of_list: bool = False) -> int | None:
    """Return the number that a variable is set to.

    It is None if it is not set, or not to such a number.
    """
    text = os.environ.get(name, "").strip()
    # OpenMP has a number for each level of nested loops.
    word = text.split(",")[0].strip() if first_of_list else text
    if word.isdecimal() and int(word) >= least:
        return int(word)
    if text:
        _report(name, text, least)
    return None


@functools.cache
def _report(name: str, text: str, least: int) -> None:
    warn(f"{name}={text} is ignored", hint=f"give a whole number, {least} or more")
