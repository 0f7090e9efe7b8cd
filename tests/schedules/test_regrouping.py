"""Reshapes and transpositions in one kernel: every element in its place, in plain loops."""

from __future__ import annotations

import math
import random
import re

import numpy as np
import pytest
from tvm import relax

import tvm_nnef
from tvm_nnef.tvm_support.compat import runtime_tensor

op = relax.op

FORMS = {
    # the shape, and shapes and permutations one after the other
    "split_in_front": ((6, 35), [(6, 5, 7), [1, 2, 0]]),
    "split_after": ((35, 64), [[1, 0], (64, 5, 7)]),
    "joined": ((3, 5, 34), [(15, 34), [1, 0]]),
    "channels_last": ((1, 17, 19, 32), [[0, 3, 1, 2], (1, 32, 323)]),
    "shuffle": ((2, 12, 5, 7), [(2, 3, 4, 5, 7), [0, 2, 1, 3, 4], (2, 12, 5, 7)]),
    "shuffle_last": ((1, 64, 5, 5), [(1, 4, 16, 25), [0, 2, 1, 3], (1, 64, 25), [0, 2, 1]]),
    "depth_to_space": (
        (1, 20, 7, 6), [(1, 5, 2, 2, 7, 6), [0, 1, 4, 2, 5, 3], (1, 5, 14, 12)]),
    "space_to_depth": (
        (1, 3, 14, 36), [(1, 3, 7, 2, 18, 2), [0, 3, 5, 1, 2, 4], (1, 12, 7, 18)]),
    "patches": ((1, 3, 32, 48), [(1, 3, 2, 16, 3, 16), [0, 2, 4, 3, 5, 1], (1, 6, 768)]),
    "not_even": ((6, 35), [[1, 0], (14, 15), [1, 0], (10, 21)]),
    "all_at_once": ((33, 31), [[1, 0], (1023,)]),
}  # fmt: skip


def made(number):
    """Reshapes and permutations made at random."""
    choose = random.Random(number)
    shape = tuple(choose.choice([1, 2, 3, 4, 6, 16, 17]) for _ in range(choose.choice([2, 3, 4])))
    steps, now = [], list(shape)
    for _ in range(choose.choice([2, 3, 4])):
        steps.append(choose.sample(range(len(now)), len(now)))
        now = [now[axis] for axis in steps[-1]]
        primes, rest = [], math.prod(now)
        for prime in (2, 3, 17):
            while rest % prime == 0:
                primes, rest = [*primes, prime], rest // prime
        choose.shuffle(primes)
        now = [1] * choose.choice([1, 2, 3])
        for prime in primes:
            now[choose.randrange(len(now))] *= prime
        steps.append(tuple(now))
    return shape, steps


CASES = {**FORMS, **{f"random_{number}": made(number) for number in range(24)}}


def built(steps, after):
    def build(x):
        for step in steps:
            x = op.reshape(x, step) if isinstance(step, tuple) else op.permute_dims(x, step)
        return after(x)

    return build


def expected(x, steps):
    for step in steps:
        x = x.reshape(step) if isinstance(step, tuple) else x.transpose(step)
    return x


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_every_element_is_at_its_position(kernels, dtype):
    after = op.negative if dtype == "float32" else (lambda x: x)
    mod = kernels.functions(
        {name: (built(steps, after), [(shape, dtype)]) for name, (shape, steps) in CASES.items()}
    )
    machine = kernels.machine(kernels.scheduled(mod))
    for name, (shape, steps) in CASES.items():
        x = np.arange(math.prod(shape)).reshape(shape).astype(dtype)
        found = machine[name](runtime_tensor(x))[0].numpy()
        wanted = expected(-x if dtype == "float32" else x, steps)
        np.testing.assert_array_equal(found, wanted, err_msg=name)


@pytest.mark.parametrize("name", [name for name in FORMS if name != "not_even"])
def test_no_lane_is_divided(kernels, name):
    shape, steps = FORMS[name]
    text = kernels.scheduled(kernels.module(built(steps, lambda x: x), shape)).script()
    assert not re.search(r"lane[^\[\],]*\) *(//|%)", text)


@pytest.mark.parametrize(
    ("index", "row"),
    [
        # TVM makes j % -2 * -1 of this one.
        ("(j + j % m - (j % 2 + (n + n)) - 4 * ((i - j) % 8)) % n",
         lambda i, j: (j + j % 4 - (j % 2 + 4) - 4 * ((i - j) % 8)) % 2),
        ("-(j % -2)", lambda i, j: -(j % -2)),
        ("(j / -2 + 1) % n", lambda i, j: (j // -2 + 1) % 2),
        ("(-j) % 2", lambda i, j: (-j) % 2),
    ],
)  # fmt: skip
def test_negative_divisors(index, row):
    text = (
        "operator f { @input { x: real[n,m]; } @output { y: real[n,m]; }"
        f" @lower {{ y[i,j] = x[{index}, 0], i < n, j < m; }} }}"
        " graph G { @input { x: real[2,4]; } @output { y: real[2,4]; } @compose { y = f(x); } }"
    )
    x = np.arange(8, dtype="float32").reshape(2, 4)
    rows = row(*np.indices((2, 4)))
    loaded = tvm_nnef.load_model(text, dialect="draft")
    for route in ("formula", "mapped"):
        found = tvm_nnef.build(loaded, route=route, progress=False, cache=False)(x)
        np.testing.assert_array_equal(found[0], x[rows, 0])
