"""The text of the error that a failed check raises in a compiled model.

Input: a failure. Output: JSON, and the inverse. An error of TVM from a program without Python
carries only text.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

MARK = "nnef check"
"""The first item of the list that is the text of the error."""


@dataclass(frozen=True, slots=True)
class CheckFailure:
    """A check that failed: the message, and the location in the model, empty if it has none."""

    message: str
    location: str = ""

    def to_json(self) -> str:
        """Return the failure as the text of an error: a list of a mark, the location, and the
        message.
        """
        return json.dumps([MARK, self.location, self.message])

    @classmethod
    def of(cls, problem: BaseException) -> CheckFailure | None:
        """Return the failure that an error of TVM reports; None for another error.

        The message may be in parts, and TVM adds text around the list.
        """
        text = str(problem)
        start = text.find(f'["{MARK}"')
        if start < 0:
            return None
        _, location, *parts = json.JSONDecoder().raw_decode(text, start)[0]
        return cls("".join(map(str, parts)), location)
