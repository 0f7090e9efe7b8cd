"""Which sources are Tile: functions in Python, and texts in C++ that use its tensors."""

from __future__ import annotations

import re

from tvm_nnef.converters.common.detection import Candidate
from tvm_nnef.converters.tile.functions import is_function

_FUNCTION = re.compile(rb"^[ \t]*(?:(?:std::)?tuple[^;{}()]*|Tensor)\s+\w+\s*\(", re.MULTILINE)
_TILE = re.compile(rb"\bconst\s+Tensor\s*&|\bTensor(?:Dim|Index|Output)\b|\bTensor\s+\w+\s*[,)]")


def is_tile(candidate: Candidate) -> bool:
    """A Python function, or a text that defines functions of tensors in C++."""
    if is_function(candidate.source):
        return True
    text = candidate.text
    return text is not None and bool(_FUNCTION.search(text) and _TILE.search(text))
