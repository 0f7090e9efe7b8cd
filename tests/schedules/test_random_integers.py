"""Random chains of operators on ints near the limits of their dtype: fused kernels wrap around.

NumPy's evaluator is the judge. ``TVM_NNEF_SEED`` chooses the chains, which are others in each run.
"""

from __future__ import annotations

import os
import random
import secrets

import numpy as np
import pytest

import tvm_nnef

FIRST = int(os.environ.get("TVM_NNEF_SEED") or secrets.randbits(31))
DTYPES = ("int32", "int64", "int8", "uint8", "int16", "uint16", "uint32", "uint64")
BINARY = ("add", "add", "sub", "sub", "mul", "mul", "min", "max", "div", "mod")
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")


def chain(source: random.Random, dtype: str) -> str:
    """The model of a chain of operators on three inputs, each of which may use what is before."""
    limits = np.iinfo(dtype)
    numbers = [0, 1, 2, 3, 4, 5, 7, 100, min(int(limits.max), 2**63 - 1), int(limits.max) // 2 + 1]
    numbers = [n for n in numbers if n < 2**63] + ([-1, -2, -100] if limits.min < 0 else [])
    ints, bools, lines = ["a", "b", "c"], [], []
    made_of: dict[str, list[str]] = {}

    def operand() -> str:
        return source.choice(ints[-6:]) if source.random() < 0.8 else str(source.choice(numbers))

    for number in range(source.randint(3, 14)):
        name, choice, first = f"t{number}", source.random(), source.choice(ints[-6:])
        if choice < 0.5:
            pair = [first, operand()]
            source.shuffle(pair)
            made_of[name] = pair
            lines.append(f"{name} = math.{source.choice(BINARY)}({', '.join(pair)});")
        elif choice < 0.6:
            functions = ("abs", "sign", "neg") if limits.min < 0 else ("abs", "sign")
            lines.append(f"{name} = math.{source.choice(functions)}({first});")
        elif choice < 0.8:
            # What has wrapped around shows beside what it was made of, or zero.
            other = source.choice([*made_of.get(ints[-1], []), "0"])
            pair = (ints[-1], other) if source.random() < 0.7 else (first, operand())
            lines.append(f"{name} = math.{source.choice(COMPARISONS)}({', '.join(pair)});")
            bools.append(name)
            continue
        elif bools:
            lines.append(f"{name} = math.select({source.choice(bools)}, {first}, {operand()});")
        else:
            lines.append(f"{name} = math.clamp({first}, {source.randint(0, 2)}, 100);")
        ints.append(name)
    result = f"math.select({bools[-1]}, {ints[-1]}, b)" if bools else f"math.abs({ints[-1]})"
    return (
        "import math; graph G { @input { a: int[40]; b: int[40]; c: int[40]; }"
        " @output { q: int[40]; }"
        f" @compose {{ {' '.join(lines)} q = {result}; }} }}"
    )


@pytest.mark.slow
@pytest.mark.rotated(1)
@pytest.mark.parametrize("part", range(8))
def test_random_chains_of_integer_operators(part: int) -> None:
    for seed in range(FIRST + 5 * part, FIRST + 5 * part + 5):
        source, generator = random.Random(seed), np.random.default_rng(seed)
        dtype = source.choice(DTYPES)
        limits, text = np.iinfo(dtype), chain(source, dtype)
        ends = np.array([limits.min, limits.max, 0, 1, int(limits.max) // 2 + 1], dtype)
        arrays = [
            np.where(
                generator.random(40) < 0.5,
                generator.choice(ends, 40),
                generator.integers(limits.min, limits.max, 40, dtype, endpoint=True),
            )
            for _ in range(3)
        ]
        (expected,) = tvm_nnef.evaluate(text, *arrays, dtypes={"int": dtype})
        for route in ("mapped", "formula"):
            built = tvm_nnef.build(text, route=route, progress=False, cache=False,
                                   dtypes={"int": dtype})  # fmt: skip
            np.testing.assert_array_equal(
                built(*arrays)[0], expected, err_msg=f"seed {seed}, {dtype}, {route}: {text}"
            )
