"""How operator functions say that they cannot convert a node."""

from __future__ import annotations


class Unconvertible(Exception):
    """A node that cannot be converted, with what a user can do about it."""

    def __init__(self, reason: str, hint: str | None = None) -> None:
        super().__init__(reason)
        self.reason, self.hint = reason, hint
