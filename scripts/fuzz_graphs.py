"""Run random ONNX graphs compiled and by ONNX Runtime, and write those that differ, minimized.

Ends with status 1 if any graph differs. The seeds that are printed give the same graphs again.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import onnx
from graph_oracle import ROUTES, Unjudged, difference, judge, minimized
from random_operators import generate


def report(seed: int, count: int, route: str, text: str, folder: Path) -> None:
    """Print what differs, and write the smallest graph that does."""
    graph = generate(seed, count)
    print(f"seed {seed}, {route}: {text}", flush=True)
    kind = text.partition(":")[0] if not text.startswith("output") else "output"
    proto, values = minimized(
        graph, lambda proto, feeds: difference(proto, feeds, route).startswith(kind)
    )
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(proto, folder / f"{seed}-{route}.onnx")
    given = {each.name for each in proto.graph.input}
    for run, arrays in enumerate(values):
        np.savez(folder / f"{seed}-{route}-{run}.npz",
                 **{name: array for name, array in arrays.items() if name in given})  # fmt: skip
    print(onnx.printer.to_text(proto.graph), flush=True)


def main() -> int:
    """Try graphs until the time is over or the number is reached."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="how long (default: 60)")
    parser.add_argument("--seed", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--graphs", type=int, default=1 << 62, help="how many graphs at most")
    parser.add_argument("--count", type=int, default=30, help="nodes of a graph (default: 30)")
    parser.add_argument("--routes", nargs="+", default=ROUTES, choices=ROUTES)
    parser.add_argument("--output", type=Path, default=Path("failing_graphs"), metavar="DIR")
    options = parser.parse_args()
    end, judged, left_out, failed = time.monotonic() + options.seconds, 0, 0, 0
    for seed in range(options.seed, options.seed + options.graphs):
        if time.monotonic() > end:
            break
        try:
            found = judge(generate(seed, options.count), options.routes)
        except Unjudged as why:
            left_out += 1
            print(f"seed {seed} left out: {why}", flush=True)
            continue
        judged += 1
        failed += bool(found)
        for route, text in found.items():
            report(seed, options.count, route, text, options.output)
    print(f"{judged} graphs judged from seed {options.seed}, {failed} differ, {left_out} left out")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
