"""Formulas made at random: compiled code must give what the NumPy evaluator gives.

    python scripts/fuzz_formulas.py --seconds 600 --seed 0

Each seed is a model of several operators with ``@lower``, some with dynamic dimensions. Seeds are
printed with what is wrong about them, and the smallest model that shows it; what takes too long or
ends the process is wrong too. Exit status 1 if anything is. ``tests/test_random_formulas.py`` runs
a sample.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import random
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection

import numpy as np
from random_formulas import operator

import tvm_nnef

MANY = 8
"""Operators in one model: it is the building that takes time."""

DTYPES = (
    ("int32", "float32"), ("int64", "float32"), ("uint8", "float64"), ("int64", "bfloat16"),
    ("int32", "float16"), ("uint64", "float32"), ("int16", "float32"), ("int8", "bfloat16"),
)  # fmt: skip
"""Of ints and reals, by the first seed of a model."""

TOLERANCES = {"float32": 1e-5, "float64": 1e-5, "float16": 0.01, "bfloat16": 0.05}
"""Relative and absolute ones, of what is rounded more than once."""

MEMORY = 8 << 30
"""Bytes that a worker may map."""


@dataclass(frozen=True)
class Case:
    """A model as text, its variables by full name, and its inputs."""

    text: str
    variables: dict[str, np.ndarray]
    arrays: list[np.ndarray]
    dtypes: dict[str, str]


def model(seeds: list[int], dtypes: tuple[str, str] = DTYPES[0]) -> Case:
    """A model that applies the operators of some seeds, each to its own tensors."""
    text, variables, arrays, lines = "import math;\n", {}, [], []
    declared: dict[str, list[str]] = {"input": [], "variable": [], "output": []}
    for seed in seeds:
        made, source = operator(seed), random.Random(f"values {seed}")
        generator = np.random.default_rng(seed)
        dynamic = source.random() < 0.3
        constant = source.choice([*list(made.inputs)[1:], None]) if not dynamic else None
        text += f"operator f{seed} {made.body}"
        names = []
        for name, (kind, shape) in made.inputs.items():
            full = f"a{seed}_{name}"
            sizes = [size if isinstance(size, int) else made.sizes[size] for size in shape]
            values = _values(kind, sizes, generator, source, dtypes)
            if name == constant:
                variables[f"main.G.{full}"] = values
            else:
                arrays.append(values)
            written = [
                f"s{seed}_{size}|20" if dynamic and isinstance(size, str) else str(number)
                for size, number in zip(shape, sizes, strict=True)
            ]
            role = "variable" if name == constant else "input"
            declared[role].append(f"{full}: {kind}[{', '.join(written)}];")
            names.append(full)
        results = [f"r{seed}_{name}" for name in made.outputs]
        declared["output"] += [
            f"r{seed}_{name}: {kind}[~..];" for name, kind in made.outputs.items()
        ]
        lines.append(f"{', '.join(results)} = f{seed}({', '.join(names)});")
    blocks = "\n".join(f"@{kind} {{ {' '.join(d)} }}" for kind, d in declared.items() if d)
    text += f"graph G {{ {blocks}\n@compose {{ {' '.join(lines)} }} }}\n"
    return Case(text, variables, arrays, dict(zip(("int", "real"), dtypes, strict=True)))


def _values(
    kind: str,
    shape: list[int],
    generator: np.random.Generator,
    source: random.Random,
    dtypes: tuple[str, str],
) -> np.ndarray:
    """Small whole numbers, so that sums are exact in any order; a few ints are large."""
    dtype, real = dtypes
    match kind:
        case "real":
            return generator.integers(-3, 4, shape).astype(np.dtype(real))
        case "bool":
            return generator.integers(0, 2, shape).astype("bool")
    limits = np.iinfo(dtype)
    values = generator.integers(-4, 20, shape).astype(dtype)
    if source.random() < 0.2:
        large = [100000 % (1 << (limits.bits - 1)), int(limits.min), int(limits.max)]
        picked = np.array(large, dtype)[generator.integers(0, 3, shape)]
        values = np.where(generator.random(shape) < 0.3, picked, values)
    return values


def refused(seed: int) -> bool:
    """Whether the model of a seed is in error: some are, on purpose."""
    found = tvm_nnef.check(model([seed]).text, dialect="draft")
    return any(each.severity == "error" for each in found)


def wrong(seeds: list[int], dtypes: tuple[str, str] = DTYPES[0]) -> str | None:
    """Return the error of the model of some seeds with some dtypes; None if there is none."""
    case, tolerance = model(seeds, dtypes), TOLERANCES[dtypes[1]]
    loaded = tvm_nnef.load_model(case.text, variables=case.variables, dialect="draft")
    try:
        expected = tvm_nnef.evaluate(loaded, *case.arrays, dtypes=case.dtypes)
    except tvm_nnef.NnefError as problem:
        return f"the evaluator refuses it: {problem}"
    try:
        options = {"route": "formula", "progress": False, "cache": False, "dtypes": case.dtypes}
        found = tvm_nnef.build(loaded, **options)(*case.arrays)
    except Exception as problem:  # Whatever it is, it belongs into the report.
        return f"{type(problem).__name__}: {str(problem).strip().splitlines()[-1]}"
    for number, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        try:
            np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)
        except AssertionError as problem:
            return f"output {number} differs:{problem}"
    return None


def findings(seeds: list[int]) -> Iterator[tuple[int, str]]:
    """The seeds with which something is wrong, each by itself where it shows so, and what."""
    dtypes = DTYPES[seeds[0] // MANY % len(DTYPES)]
    problem = wrong(seeds, dtypes)
    if problem is None:
        return
    alone = [(seed, found) for seed in seeds if (found := wrong([seed], dtypes)) is not None]
    for seed, found in alone or [(seeds[0], f"only together with {seeds[1:]}: {problem}")]:
        yield seed, f"with --dtypes {' '.join(dtypes)}: {found}"


# --- workers with limits


def warm_up(seed: int) -> None:
    """Build one formula, so that workers are forked with TVM and the standard library loaded.

    It is not run: threads of TVM would be lost in the workers.
    """
    case = model([seed])
    loaded = tvm_nnef.load_model(case.text, variables=case.variables, dialect="draft")
    with contextlib.suppress(tvm_nnef.NnefError):
        tvm_nnef.build(loaded, route="formula", progress=False, cache=False)


@dataclass(frozen=True)
class Report:
    """Results of a worker: the number of formulas in error, and the differences of others."""

    refused: int
    wrong: list[tuple[int, str]]


def _work(seeds: list[int], result: Connection) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    valid = [seed for seed in seeds if not refused(seed)]
    result.send(Report(len(seeds) - len(valid), list(findings(valid)) if valid else []))


def report(seeds: list[int], limit: float) -> Report | str:
    """Return the results of a worker for some seeds, or why it has none in so many seconds."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    worker = context.Process(target=_work, args=(seeds, sender))
    worker.start()
    sender.close()
    try:
        if not receiver.poll(limit):
            return f"takes more than {limit:.0f} s"
        found: Report = receiver.recv()
        return found
    except EOFError:
        worker.join()
        return f"ends the process with status {worker.exitcode}"
    finally:
        worker.kill()
        worker.join()
        receiver.close()


def reports(seeds: list[int], limit: float) -> Report:
    """Return the errors of some seeds, each by itself if they fail together."""
    together = report(seeds, limit)
    if isinstance(together, Report):
        return together
    each = {seed: report([seed], limit) for seed in seeds}
    whole = [found for found in each.values() if isinstance(found, Report)]
    failed = [(seed, found) for seed, found in each.items() if isinstance(found, str)]
    failed += [found for part in whole for found in part.wrong]
    failed = failed or [(seeds[0], f"only together with {seeds[1:]}: {together}")]
    return Report(sum(part.refused for part in whole), failed)


def main() -> int:
    """Tries seeds until the time is over; 1 if something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60, help="how long to go on")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--limit", type=float, default=120, help="seconds for one formula")
    parser.add_argument("--show", type=int, help="print the model of one seed, and judge it")
    parser.add_argument("--dtypes", nargs=2, default=DTYPES[0], help="of ints and reals of --show")
    options = parser.parse_args()
    if options.show is not None:
        print(model([options.show]).text, wrong([options.show], (*options.dtypes,)) or "agrees")
        return 0
    warm_up(options.seed)
    end, seed, tried, rejections, bad = time.monotonic() + options.seconds, options.seed, 0, 0, []
    while time.monotonic() < end:
        seeds = [*range(seed, seed + MANY)]
        seed += MANY
        print(f"\rseeds {seeds[0]} to {seeds[-1]}", end="", file=sys.stderr, flush=True)
        found = reports(seeds, options.limit)
        rejections += found.refused
        tried += len(seeds) - found.refused
        for each, problem in found.wrong:
            bad.append(each)
            print(f"seed {each}: {problem}\n{model([each]).text}", flush=True)
    print(
        f"seeds {options.seed} to {seed - 1}: {tried} formulas compared, "
        f"{rejections} refused when checked, {len(bad)} wrong: {bad}"
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
