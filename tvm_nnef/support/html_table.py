"""Tables in HTML, which notebooks show for the objects of this package.

Input: texts, which are escaped. Output: HTML.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

MAX_ROWS = 500
"""Upper limit of the rows of a table; a notebook gets slow with more."""


def html_table(
    caption: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    marked: Sequence[int] = (),
    numbers: Sequence[int] = (),
) -> str:
    """Return a table with a caption.

    Rows in ``marked`` are bold, columns in ``numbers`` are aligned.
    """
    head = _row("th", heads, numbers)
    lines = [
        _row("td", cells, numbers, "background:#fee2e2;font-weight:bold" if n in marked else "")
        for n, cells in enumerate(rows[:MAX_ROWS])
    ]
    if len(rows) > MAX_ROWS:
        lines.append(f'<tr><td colspan="{len(heads)}">{len(rows) - MAX_ROWS} more</td></tr>')
    title = f'<caption style="text-align:left">{escape(caption)}</caption>'
    body = "\n".join(lines)
    return f"<table>{title}\n<thead>{head}</thead>\n<tbody>\n{body}\n</tbody></table>"


def _row(tag: str, cells: Sequence[str], numbers: Sequence[int], style: str = "") -> str:
    made = (
        f'<{tag} style="text-align:{"right" if n in numbers else "left"}">{escape(text)}</{tag}>'
        for n, text in enumerate(cells)
    )
    return f'<tr style="{style}">{"".join(made)}</tr>' if style else f"<tr>{''.join(made)}</tr>"
