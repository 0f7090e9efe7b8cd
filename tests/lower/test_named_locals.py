"""Locals that are read several times, one after the other: expressions that do not double."""

from __future__ import annotations

import numpy as np
import pytest

import tvm_nnef

LINES = 60


def chain(start, step, count):
    """A model with locals of which each reads the one before it twice."""
    lines = ", ".join(f"a{n} = {step.replace('_', f'a{n - 1}')}" for n in range(1, count))
    return f"""
operator f {{
  @input {{ x: real[n]; }}
  @output {{ y: real[n]; }}
  @lower {{ a0 = {start}, {lines}, y[i] = a{count - 1} + x[i], i < n; }}
}}
graph G {{ @input {{ x: real[5]; }} @output {{ y: real[5]; }} @compose {{ y = f(x); }} }}
"""


@pytest.mark.slow
def test_a_long_chain_of_locals_is_built_and_computes_what_it_says():
    x = np.array([1.0, 0.5, -1.0, 0.99, 0.0], "float32")
    expected = x
    for _ in range(LINES - 1):
        expected = expected * expected * np.float32(0.5) + expected * np.float32(0.5)
    (found,) = tvm_nnef.build(chain("x[i]", "_ * _ * 0.5 + _ * 0.5", LINES))(x)
    np.testing.assert_allclose(found, expected + x, rtol=1e-5, atol=1e-7)


def test_a_chain_of_locals_that_guard_their_reads_keeps_its_guards():
    x = np.array([1.0, 0.5, -1.0, 0.99, 0.0], "float32")
    before = np.concatenate([[0], x[:-1]]).astype("float32")
    expected = before
    for _ in range(LINES - 1):
        expected = expected * np.float32(0.5) + expected * np.float32(0.25)
    expected[0] = -x[0]
    (found,) = tvm_nnef.build(chain("x[|i - 1|]", "_ * 0.5 + _ * 0.25", LINES))(x)
    np.testing.assert_allclose(found, expected + x, rtol=1e-5, atol=1e-7)


def test_a_chain_of_whole_numbers_stays_whole():
    text = chain("i + 1", "(_ * _ + _) % 97", LINES).replace(
        "y[i] = a59 + x[i]", "y[i] = real(a59)"
    )
    expected = np.arange(1, 6)
    for _ in range(LINES - 1):
        expected = (expected * expected + expected) % 97
    (found,) = tvm_nnef.build(text)(np.zeros(5, "float32"))
    np.testing.assert_array_equal(found, expected.astype("float32"))
