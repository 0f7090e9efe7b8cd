"""Draw the speeds that were measured as bars: ``docs/pictures/speed.json`` to two SVG files.

One is for a light background, one for a dark one. Edit the JSON file after a measurement with
``scripts/bench.py``, and run this script.
"""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import Any

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"
COLOURS = {
    "light": {"text": "#1c2430", "muted": "#667085", "bar": "#4f46e5", "line": "#98a2b3"},
    "dark": {"text": "#e4e8ef", "muted": "#98a2b3", "bar": "#818cf8", "line": "#66718a"},
}
WIDTH, LEFT, STEP, TOP = 640, 200, 32, 44


def chart(data: dict[str, Any], colours: dict[str, str]) -> str:
    """Return the SVG of the bars; a line marks 1, where both runtimes are equally fast."""
    bars = data["bars"]
    scale = (WIDTH - LEFT - 60) / max(each["ratio"] for each in bars)
    height = TOP + STEP * len(bars) + 30
    one, bottom = LEFT + scale, TOP + STEP * len(bars)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" font-family="system-ui, sans-serif" font-size="13" '
        f'role="img" fill="{colours["text"]}">',
        f"<title>{escape(data['title'])}</title>",
        f'<text x="8" y="20" font-size="15" font-weight="600">{escape(data["title"])}</text>',
    ]
    for number, each in enumerate(bars):
        y, width = TOP + STEP * number, scale * each["ratio"]
        lines += [
            f'<text x="{LEFT - 10}" y="{y + 15}" text-anchor="end">{escape(each["name"])}</text>',
            f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="22" rx="3" '
            f'fill="{colours["bar"]}"/>',
            f'<text x="{LEFT + width + 8:.1f}" y="{y + 15}" font-weight="600">'
            f"{each['ratio']:.2f}</text>",
        ]
    lines += [
        f'<path d="M{one:.1f} {TOP - 6}V{bottom - 4}" stroke="{colours["line"]}" '
        'stroke-width="1.5" stroke-dasharray="4 3"/>',
        f'<text x="8" y="{bottom + 18}" font-size="11" fill="{colours["muted"]}">'
        f"{escape(data['note'])}</text>",
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write both files."""
    data = json.loads((PICTURES / "speed.json").read_text(encoding="utf-8"))
    for name, colours in COLOURS.items():
        (PICTURES / f"speed-{name}.svg").write_text(chart(data, colours), encoding="utf-8")


if __name__ == "__main__":
    main()
