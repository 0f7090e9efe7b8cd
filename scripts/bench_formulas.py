"""Speed of operators that a user writes as formulas beside the mapped ones of the same size.

Each pair is built and run in one process, in turns; the best of many runs counts. A ratio below 1
says that the formula is slower. Ends with status 1 where one is below ``LEAST``, or where the two
differ.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping

import numpy as np
from formula_pairs import PAIRS, Pair, Shape

LEAST = 0.9


def built(pair: Pair, text: str) -> tuple[Callable[[], object], np.ndarray]:
    """Return a function that runs one of the two on random inputs, and its first result."""
    import tvm_nnef

    generator = np.random.default_rng(0)

    def values(shapes: Mapping[str, Shape]) -> dict[str, np.ndarray]:
        return {n: generator.standard_normal(s).astype("float32") for n, s in shapes.items()}

    inputs = list(values(pair.inputs).values())
    weights = {f"main.Main.{name}": array for name, array in values(pair.weights).items()}
    executable = tvm_nnef.build(text, variables=weights, progress=False, cache=False)
    return executable.prepared(*inputs), executable(*inputs)[0]


def ratio(name: str, pair: Pair, seconds: float, alone: bool) -> float:
    """Return and print how much faster the formula is; 0 if its results differ."""
    from tvm_nnef.measurement.interleaved import timed_in_turns

    texts = pair.text(), pair.text(pair.mapped)
    calls, (found, expected) = zip(*(built(pair, text) for text in texts), strict=True)
    scale = float(np.abs(expected).max())
    same = found.shape == expected.shape and np.allclose(found, expected, 1e-4, 1e-5 * scale)
    formula, mapped = (times.minimum for times in timed_in_turns(calls, seconds, alone=alone))
    how = f"{mapped / formula:8.2f}" if same else " differs"
    print(f"{name:20}{1e6 * formula:12.1f}{1e6 * mapped:12.1f}{how}", flush=True)
    return mapped / formula if same else 0.0


def main() -> int:
    """Measure the pairs that were asked for and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pairs", nargs="*", help=f"of {', '.join(PAIRS)}; all without")
    parser.add_argument("--seconds", type=float, default=1.0, help="how long each pair runs")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    os.environ["TVM_NUM_THREADS"] = str(options.threads)
    print(f"{'':20}{'formula us':>12}{'mapped us':>12}{'ratio':>8}")
    alone = options.threads == 1
    names = options.pairs or PAIRS
    return int(min(ratio(name, PAIRS[name], options.seconds, alone) for name in names) < LEAST)


if __name__ == "__main__":
    sys.exit(main())
