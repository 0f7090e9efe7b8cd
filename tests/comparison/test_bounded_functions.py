"""The tolerance of outputs of bounded functions is relative to their range, and no other's is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.comparison.differences import OF_RANGE, TOLERANCES, difference
from tvm_nnef.comparison.ranges import widths_of_ranges

OWN = """
operator own {
    @attrib { low: real = 0.0; }
    @input { x: real[s..]; }
    @output { y: real[s..]; }
    @lower { y[i..] = (x[i..] << 3.0) >> low, i < s; }
}
"""


def model(compose: str, shape: str = "real[4,8]", output: str = "real") -> str:
    return (
        f"import math; import nn; import layout; import image; {OWN}"
        f"graph G {{ @input {{ x: {shape}; }} @output {{ y: {output}; }} "
        f"@compose {{ {compose} }} }}\n"
    )


WIDTHS: dict[str, float | None] = {
    "y = nn.sigmoid(x);": 1.0,
    "y = math.tanh(x);": 2.0,
    "y = nn.erf(x);": 2.0,
    "y = math.sin(x);": 2.0,
    "y = math.cos(x);": 2.0,
    "y = math.atan(x);": np.pi,
    "y = math.sign(x);": 2.0,
    "y = nn.relu{max=6.0}(x);": 6.0,
    "m = math.min(x, 1.0); y = math.max(m, 0.0);": 1.0,
    "y = own(x);": 3.0,
    "y = own{low=-1.0}(x);": 4.0,
    # by hand: 1 / (1 + e^-x)
    "n = math.neg(x); e = math.exp(n); d = math.add(e, 1.0); y = math.div(1.0, d);": 1.0,
    "s = nn.sigmoid(x); y = math.mul(s, 2.0);": 2.0,
    "s = nn.sigmoid(x); y = layout.reshape{shape=[8,4]}(s);": 1.0,
    "s = nn.sigmoid(x); y = layout.transpose{perm=[1,0]}(s);": 1.0,
    "s = nn.sigmoid(x); y = layout.concat{axis=0}([s, s]);": 1.0,
    "s = nn.sigmoid(x); y = math.max_reduce{axes=[1]}(s);": 1.0,
    # not bounded
    "y = math.exp(x);": None,
    "y = math.iden(x);": None,
    "y = nn.relu(x);": None,
    "s = nn.sigmoid(x); y = math.sum_reduce{axes=[1]}(s);": None,
    "s = nn.sigmoid(x); y = math.log(s);": None,
    "s = nn.sigmoid(x); y = math.mul(s, x);": None,
    "s = nn.sigmoid(x); y = math.rcp(s);": None,
    # bounds that only protect from overflow
    "y = math.clamp(x, -1e30, 1e30);": None,
}


@pytest.mark.parametrize("compose", WIDTHS)
def test_the_width_of_the_range(compose: str) -> None:
    graph = tvm_nnef.compose(model(compose))
    (output,) = (port.operand for port in graph.outputs)
    assert widths_of_ranges(graph).get(output) == pytest.approx(WIDTHS[compose])  # type: ignore[arg-type]


def test_selects_of_named_values_take_no_exponential_time() -> None:
    """Each value is used twice, and decides a condition."""
    steps = "".join(
        f"v{n} = v{n - 1} < 0.5 ? v{n - 1} + v{n - 1} : v{n - 1}, " for n in range(1, 60)
    )
    text = (
        "operator f { @input { x: real[n]; } @output { y: real[n]; } "
        f"@lower {{ v0 = x[i], {steps} y[i] = v59, i < n; }} }}\n"
        "graph G { @input { x: real[2]; } @output { y: real; } @compose { y = f(x); } }"
    )
    assert widths_of_ranges(tvm_nnef.compose(text)) == {}


def moved(name: str, offset: float) -> Callable[..., Any]:
    """A lowering whose results are moved by a constant."""

    def lowering(builder: Any, operation: Any, operands: Any) -> Any:
        from tvm import relax

        right = builder.emit(getattr(relax.op, name)(operands[0]))
        return relax.op.add(right, relax.const(offset, "float32"))

    return lowering


SATURATED = -np.linspace(16, 40, 32, dtype=np.float32).reshape(4, 8)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("routes", [("mapped", "reference"), ("reference", "mapped")])
def test_a_saturated_sigmoid_is_not_a_difference(routes: tuple[str, str]) -> None:
    text = model("s = nn.sigmoid(x); y = layout.reshape{shape=[8,4]}(s);")
    right = {"routes": routes, "progress": False}
    for offset, agrees in ((1e-7, True), (1e-6, True), (1e-3, False)):
        lowerings = {"nn.sigmoid": moved("sigmoid", offset)}
        report = tvm_nnef.compare(text, SATURATED, lowerings=lowerings, **right)
        assert report.agrees == agrees, report
    assert tvm_nnef.compare(text, SATURATED, **right).agrees


def test_what_is_not_bounded_is_held_to_its_own_size() -> None:
    lowerings = {"math.exp": moved("exp", 1e-7)}
    options = {"lowerings": lowerings, "progress": False}
    report = tvm_nnef.compare(model("y = math.exp(x);"), SATURATED, **options)
    assert not report.agrees


def test_a_given_absolute_tolerance_counts_alone() -> None:
    text, options = model("y = nn.sigmoid(x);"), {"progress": False, "rtol": 1e-4}
    lowerings = {"nn.sigmoid": moved("sigmoid", 1e-7)}
    assert not tvm_nnef.compare(text, SATURATED, lowerings=lowerings, atol=0.0, **options).agrees


def test_tolerances_of_a_range() -> None:
    zero = np.zeros(3, np.float32)
    assert difference(zero, zero + np.float32(1e-7), width=1.0).agrees
    assert not difference(zero, zero + np.float32(1e-7)).agrees
    found = difference(zero, zero, width=2.0, depth=10.0)
    assert found.atol == pytest.approx(2 * OF_RANGE * TOLERANCES["float32"])


def test_what_stands_for_infinity_is_not_a_scale() -> None:
    """A mask of attention: the other elements are compared as if it was not there."""
    mask = np.array([1.0, -3.4e38, 2.0, -np.inf], np.float32)
    wrong = np.array([1.5, -3.4e38, 2.0, -np.inf], np.float32)
    assert not difference(mask, wrong).agrees
    assert difference(mask, mask).agrees
    assert difference(mask[1:2], mask[1:2] * np.float32(0.99999)).agrees
