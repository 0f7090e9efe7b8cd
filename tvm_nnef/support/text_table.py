"""Tables of text in aligned columns, as terminals show them.

Input: rows of texts. Output: a line for each.
"""

from __future__ import annotations

from collections.abc import Sequence


def text_table(rows: Sequence[Sequence[str]], texts: int) -> list[str]:
    """Return lines with columns aligned: the first ``texts`` ones at their left side, numbers at
    right.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if n < texts else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
