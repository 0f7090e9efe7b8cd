"""Run random ONNX graphs compiled and by ONNX Runtime, and write those that differ, minimized.

The last line names the first and the last seed, and says how many graphs were judged, how many of
those failed, and how many were left out as ONNX Runtime does not judge them. Ends with status 1 if
any graph failed. The same seed gives the same graph again. Graphs are tried on the mapped and the
formula route in turn: most of what goes wrong does so on both, and so twice as many are tried.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from graph_oracle import ROUTES, Feeds, Unjudged, differences, judge, minimized
from random_operators import generate


def report(seed: int, count: int, found: Mapping[str, str], folder: Path) -> None:
    """Print what differs, and write the smallest graph that does, one for both routes if alike."""
    for route, text in found.items():
        print(f"seed {seed}, {route}: {text}", flush=True)
    graph, kinds = generate(seed, count), {_kind(text): route for route, text in found.items()}
    folder.mkdir(parents=True, exist_ok=True)
    for kind, route in kinds.items():
        proto, values = minimized(graph, lambda p, feeds, k=kind, r=route: _fails(p, feeds, r, k))
        onnx.save(proto, folder / f"{seed}-{route}.onnx")
        names = [each.name for each in proto.graph.input]
        for run, arrays in enumerate(values):
            given = {name: arrays[name] for name in names}
            np.savez(folder / f"{seed}-{route}-{run}.npz", **given)
        print(onnx.printer.to_text(proto.graph), flush=True)


def _kind(text: str) -> str:
    return "output" if text.startswith("output") else text.partition(":")[0]


def _fails(proto: onnx.ModelProto, feeds: Sequence[Feeds], route: str, kind: str) -> bool:
    return any(_kind(text) == kind for text in differences(proto, feeds, [route]).values())


def main() -> int:
    """Try graphs until the time is over or the number is reached."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="how long (default: 60)")
    parser.add_argument("--seed", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--graphs", type=int, default=1 << 62, help="how many graphs at most")
    parser.add_argument("--count", type=int, default=30, help="nodes of a graph (default: 30)")
    parser.add_argument("--routes", nargs="+", choices=ROUTES,
                        help="the routes of each graph (default: one, in turn)")  # fmt: skip
    parser.add_argument("--output", type=Path, default=Path("failing_graphs"), metavar="DIR")
    options = parser.parse_args()
    end, judged, left_out, failed = time.monotonic() + options.seconds, 0, 0, 0
    seed = options.seed
    while seed < options.seed + options.graphs and time.monotonic() < end:
        routes = options.routes or [ROUTES[seed % len(ROUTES)]]
        try:
            found = judge(generate(seed, options.count), routes)
        except Unjudged as why:
            left_out += 1
            print(f"seed {seed} left out: {why}", flush=True)
        else:
            judged += 1
            if found:
                failed += 1
                report(seed, options.count, found, options.output)
        seed += 1
    print(f"seeds {options.seed} to {seed - 1}: {judged} judged, {failed} failed, "
          f"{left_out} left out")  # fmt: skip
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
