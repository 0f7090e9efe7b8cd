"""Draw measured speeds as bars: ``docs/pictures/speed.json`` to two SVG files, light and dark.

    python scripts/bench.py squeezenet resnet50 --json results.json
    python scripts/write_speed_chart.py results.json --machine "two cores with AVX2"

The results replace those of the JSON file, which without results is drawn again. A bar is the
geometric mean of the ratios of all networks.
"""

from __future__ import annotations

import argparse
import json
from html import escape
from math import prod
from pathlib import Path
from typing import Any

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"
COLOURS = {
    "light": {"text": "#1c2430", "muted": "#667085", "bar": "#4f46e5", "line": "#98a2b3"},
    "dark": {"text": "#e4e8ef", "muted": "#98a2b3", "bar": "#818cf8", "line": "#66718a"},
}
OURS, NAMES = "tvm_nnef", {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}
TITLE = "How many times as fast as other runtimes, CPU, float32"
WIDTH, LEFT, STEP, TOP = 640, 200, 32, 44


def bars(data: dict[str, Any]) -> dict[str, float]:
    """Return the mean ratio of each runtime with each number of threads."""
    every = [(run["threads"], run["busy"]) for row in data["networks"] for run in row["runs"]]
    found = {}
    for runtime, title in NAMES.items():
        for threads in sorted({count for count, _ in every}):
            ratios = [
                busy[runtime] / busy[OURS]
                for count, busy in every
                if count == threads and runtime in busy
            ]
            text = f"{title}, {threads} thread{'s' if threads > 1 else ''}"
            found[text] = prod(ratios) ** (1 / len(ratios))
    return found


def chart(data: dict[str, Any], colours: dict[str, str]) -> str:
    """Return the SVG of the bars; a line marks 1, where both runtimes are equally fast."""
    ratios = bars(data)
    names = ", ".join(row["name"] for row in data["networks"])
    notes = [f"Geometric mean of {names};", f"{data['machine']}; no tuning."]
    scale = (WIDTH - LEFT - 60) / max(ratios.values())
    height = TOP + STEP * len(ratios) + 44
    one, bottom = LEFT + scale, TOP + STEP * len(ratios)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" font-family="system-ui, sans-serif" font-size="13" '
        f'role="img" fill="{colours["text"]}">',
        f"<title>{escape(TITLE)}</title>",
        f'<text x="8" y="20" font-size="15" font-weight="600">{escape(TITLE)}</text>',
    ]
    for number, (name, ratio) in enumerate(ratios.items()):
        y, width = TOP + STEP * number, scale * ratio
        lines += [
            f'<text x="{LEFT - 10}" y="{y + 15}" text-anchor="end">{escape(name)}</text>',
            f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="22" rx="3" '
            f'fill="{colours["bar"]}"/>',
            f'<text x="{LEFT + width + 8:.1f}" y="{y + 15}" font-weight="600">{ratio:.2f}</text>',
        ]
    lines += [
        f'<path d="M{one:.1f} {TOP - 6}V{bottom - 4}" stroke="{colours["line"]}" '
        'stroke-width="1.5" stroke-dasharray="4 3"/>',
        *(
            f'<text x="8" y="{bottom + 18 + 14 * line}" font-size="11" fill="{colours["muted"]}">'
            f"{escape(note)}</text>"
            for line, note in enumerate(notes)
        ),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Take results, if they are given, and write both pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", nargs="*", help="files of 'scripts/bench.py --json'")
    parser.add_argument("--machine", help="what measured, for the line below the bars")
    options = parser.parse_args()
    file = PICTURES / "speed.json"
    data = json.loads(file.read_text(encoding="utf-8"))
    if options.results:
        if not options.machine:
            parser.error("say what machine measured: --machine")
        rows = [row for each in options.results for row in json.loads(Path(each).read_text())]
        data = {"machine": options.machine, "networks": networks(rows)}
        lines = ",\n  ".join(json.dumps(row) for row in data["networks"])
        text = (
            f'{{\n "machine": {json.dumps(options.machine)},\n "networks": [\n  {lines}\n ]\n}}\n'
        )
        file.write_text(text, encoding="utf-8")
    for name, colours in COLOURS.items():
        (PICTURES / f"speed-{name}.svg").write_text(chart(data, colours), encoding="utf-8")


def networks(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what a chart needs of results, a row for each network that did not fail."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        for run in row.get("runs", ()):
            seconds = {runtime: float(f"{each:.4g}") for runtime, each in run["busy"].items()}
            found.setdefault(row["name"], []).append({"threads": run["threads"], "busy": seconds})
    return [{"name": name, "runs": runs} for name, runs in found.items()]


if __name__ == "__main__":
    main()
