"""The exception by which operator functions report an operation that they cannot convert."""

from __future__ import annotations


class Unconvertible(Exception):
    """An operation that cannot be converted, with a hint for the user.

    ``mismatch`` means that the operator is supported, but not for inputs of these shapes.
    """

    def __init__(self, reason: str, hint: str = "", *, mismatch: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.hint, self.mismatch = reason, hint, mismatch

    @property
    def is_unsupported(self) -> bool:
        """Whether the operation may be valid."""
        return not self.mismatch


class Invalid(Unconvertible):
    """An operation that is not valid in any converter."""

    def __init__(
        self, reason: str, hint: str = "correct the model", *, mismatch: bool = False
    ) -> None:
        super().__init__(reason, hint, mismatch=mismatch)

    @property
    def is_unsupported(self) -> bool:
        """False: no other version would convert it."""
        return False
