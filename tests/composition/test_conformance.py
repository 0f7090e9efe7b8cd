"""Rules that a walk through the specification found broken; see docs/conformance.md."""

from __future__ import annotations

import numpy as np
import pytest

import tvm_nnef

OPERATORS = """
operator neg { @input { a: real[s..]; } @output { b: real[s..]; }
    @lower { b[i..] = -a[i..], i < s; } }
operator weigh { @input { x: real[s..]; } @output { y: real[s..]; } @variable { w: real[s..]; }
    @lower { y[i..] = x[i..] * w[i..], i < s; } }
operator q { @attrib { bits: int; } @input { a: real[s..]; } @output { b: real[s..]; }
    @lower { b[i..] = a[i..] * real(bits), i < s; } }
operator inner { @input { x: real[s..]; } @output { y: real[s..]; }
    @compose { t = neg(x); y = neg(t); } }
public operator open { @input { x: real[s..]; } @output { y: real[s..]; }
    @compose { t = neg(x); y = neg(t); } }
operator halved { @input { x: real[s..]; } @output { y: real[s..]; }
    @compose { t = neg(x); y = neg(t); } @quantize { t: q{bits=2}; } }
operator perhaps { @input { x: optional real[n]; } @output { y: optional real[n]; }
    @compose { y = x; } }
operator flat { @input { x: real[s..]; } @output { y: real[s..]; } @assert { y.rank == 1; }
    @lower { y[i..] = x[i..], i < s; } }
"""


def graph(compose: str, rest: str = "", inputs: str = "x: real[2];") -> str:
    return (
        f"{OPERATORS}graph G {{ @input {{ {inputs} }} @output {{ y: real[2]; }} "
        f"@compose {{ {compose} }} {rest} }}\n"
    )


@pytest.mark.parametrize(("text", "expected"), [
    (graph("y = halved(x);"), [2, 4]),
    (graph("y = l: open(x);", "@quantize { l.t: q{bits=3}; }"), [3, 6]),
    (graph("y = l: open(x);", "@quantize { l.x: q{bits=3}; }"), [3, 6]),
    (graph("m = perhaps(~); y = m ?? x;"), [1, 2]),
    (graph("m = perhaps(x); y = m ?? x;"), [1, 2]),
    (graph("y = flat(x);"), [1, 2]),
])  # fmt: skip
def test_accepted(text: str, expected: list[float]) -> None:
    x = np.array([1, 2], np.float32)
    for outputs in (tvm_nnef.evaluate(text, x), tvm_nnef.build(text, progress=False)(x)):
        np.testing.assert_array_equal(outputs[0], expected)


def test_quantizing_what_a_formula_reads() -> None:
    text = graph("y = weigh(x);", "@quantize { y.w: q{bits=3}; }")
    model = tvm_nnef.load_model(text, variables={"main.G.y.w": np.array([5, 7], np.float32)})
    x = np.array([1, 2], np.float32)
    for outputs in (tvm_nnef.evaluate(model, x), tvm_nnef.build(model, progress=False)(x)):
        np.testing.assert_array_equal(outputs[0], [15, 42])


@pytest.mark.parametrize(("text", "words"), [
    (graph("y = l: inner(x);", "@quantize { l.t: q{bits=3}; }"), "not public"),
    (graph("y = with a = x do..(r) neg(a);", "", "x: real[2]; r: int[1];"), "rank 0"),
    (graph("y = flat(z);", "", "x: real[2]; z: real[2,1];"), "'y.rank == 1' does not hold"),
])  # fmt: skip
def test_refused(text: str, words: str) -> None:
    with pytest.raises(tvm_nnef.NnefError) as caught:
        tvm_nnef.compose(text)
    assert words in str(caught.value)


def test_steps_of_an_unrolled_loop_name_their_variables() -> None:
    composed = tvm_nnef.compose(graph("y = with a = x unroll..(2) weigh(a);"))
    assert [tensor.name for tensor in composed.variables] == ["main.G.y:1.w", "main.G.y:2.w"]
