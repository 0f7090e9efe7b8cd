"""Functions of JAX made at random: their StableHLO, converted, must give what JAX gives.

    python scripts/fuzz_functions.py --seconds 600 --seed 0 [--compiled]

Seeds are printed with what is wrong about them. Exit status 1 if anything is.
``tests/stablehlo/test_random_functions.py`` runs a sample.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from typing import Any

import jax
import numpy as np
import random_function_steps  # noqa: F401 - registers steps
import random_function_sums  # noqa: F401 - registers more steps
from random_functions import Function

import tvm_nnef


def wrong(seed: int, *, compiled: bool = False) -> str | None:
    """Return the error of the function of a seed; None if there is none."""
    function = Function(seed)
    jitted = jax.jit(function, keep_unused=True)
    lowered = jitted.lower(*function.arguments)
    expected = [np.asarray(each) for each in jitted(*function.arguments)]
    try:
        model = tvm_nnef.load_model(lowered)
        if compiled:
            found = tvm_nnef.build(model, progress=False, cache=False)(*function.arguments)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                found = tvm_nnef.evaluate(model, *function.arguments)
    except Exception as problem:  # Whatever it is, it belongs into the report.
        return f"{type(problem).__name__}: {problem}"
    found = [np.asarray(each) for each in found]
    problem = _first_difference(found, expected)
    if problem is None:
        return None
    # XLA's CPU compiler makes 0 of the 0 / NaN of a one-hot vector; its single operations do not.
    with jax.disable_jit():
        single = [np.asarray(each) for each in function(*function.arguments)]
    return problem if _first_difference(found, single) else None


def _first_difference(found: list[Any], expected: list[Any]) -> str | None:
    for number, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        problem = _difference(ours, theirs)
        if problem:
            return f"output {number} differs: {problem}"
    return None


def _difference(ours: Any, theirs: Any) -> str:
    if (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
        return f"{ours.dtype}{list(ours.shape)} instead of {theirs.dtype}{list(theirs.shape)}"
    single = theirs.dtype == np.float32
    tolerance = 2e-4 if single else 0 if theirs.dtype.kind in "iub" else 2e-2
    ours, theirs = ours.astype("float64"), theirs.astype("float64")
    scale = max(1, np.abs(theirs[np.isfinite(theirs)]).max(initial=0))
    try:
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance * scale)
    except AssertionError as problem:
        return str(problem)
    return ""


def main() -> int:
    """Tries seeds until the time is over; 1 if something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60, help="how long to go on")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--compiled", action="store_true", help="build each function")
    parser.add_argument("--show", type=int, help="print the StableHLO of one seed, and judge it")
    options = parser.parse_args()
    if options.show is not None:
        function = Function(options.show)
        print(jax.jit(function, keep_unused=True).lower(*function.arguments).as_text())
        print(wrong(options.show, compiled=options.compiled) or "agrees")
        return 0
    end, seed, bad = time.monotonic() + options.seconds, options.seed, []
    while time.monotonic() < end:
        print(f"\rseed {seed}", end="", file=sys.stderr, flush=True)
        problem = wrong(seed, compiled=options.compiled)
        if problem is not None:
            bad.append(seed)
            print(f"seed {seed}: {Function(seed).names}\n{problem}", flush=True)
        seed += 1
    print(f"seeds {options.seed} to {seed - 1}: {len(bad)} wrong: {bad}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
