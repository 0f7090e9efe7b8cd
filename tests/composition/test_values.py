"""Rules that show in numbers: components, shapes and state, evaluated from text (2.4 to 2.15)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.graph.nodes import Tensor

OPERATORS = """
import math;
import layout;
operator neg { @input { a: real[s..]; } @output { b: real[s..]; }
    @lower { b[i..] = -a[i..], i < s; } }
operator weigh { @input { x: real[s..]; } @output { y: real[s..]; } @variable { w: real[s..]; }
    @lower { y[i..] = x[i..] * w[i..], i < s; } }
operator add_bias { @attrib { f: bool; } @input { x: real[n]; z: optional real[n]; }
    @output { y: real[n]; } @compose { y = if ?z && f then math.add(x, z) else x; } }
operator q { @attrib { by: real = 2.0; } @input { a: real[s..]; } @output { b: real[s..]; }
    @lower { b[i..] = a[i..] * by, i < s; } }
operator tell { @attrib { v: int..(n); } @output { y: int[n]; }
    @lower { y[i,] = v[i], i < n; } }
operator same { @input { a: real[s..]; b: real[t..]; } @output { y: int[]; }
    @compose { y = a is b ? 1 : 0; } }
operator properties {
    @input { x: real[n,m]; xs: real[k]..(l); o: optional real[e]; }
    @constant { c: real[n,2] = 0.0; cs: real[2]..(3) = [0.0, 1.0, 2.0]; }
    @output { y: int[6]; }
    @compose {
        t = layout.transpose(x);
        y = tell{v=[t.shape.., c.rank, c.shape[1], cs.size, xs.size + (o.rank ?? 0)]}();
    }
}
operator lowered {
    @input { x: real[n,m]; } @constant { c: real[3] = 1.0; }
    @output { y: int[4]; z: real[n,m]; }
    @lower {
        z[i,j] = x[i,j], i < n, j < m;
        y[i,] = [x.rank, c.shape[0], z.rank, z.shape[1]][i], i < 4;
    }
}
operator swap { @input { xs: real[n]..(2); } @output { ys: real[n]..(2); }
    @compose { ys = [xs[1], xs[0]]; } }
"""

X, Z = np.array([1, 2], np.float32), np.array([10, 20], np.float32)
XS = [np.array([i, i + 1], np.float32) for i in (3, 5, 7)]


def graph(compose: str, outputs: str = "y: real[2];", rest: str = "") -> str:
    return (
        f"{OPERATORS}graph G {{ @attrib {{ f: bool = true; n: int = 1; }} "
        f"@input {{ x: real[2]; z: real[2]; xs: real[2]..(3); c: bool[]; k: int[]; }} "
        f"@output {{ {outputs} }} @compose {{ {compose} }} {rest} }}\n"
    )


def evaluate(text: str, **options: Any) -> Any:
    return tvm_nnef.evaluate(text, X, Z, XS, np.array(True), np.array(2, np.int32), **options)


PACKS = [
    # tensor expressions that give a pack, and the tensors that it holds
    ("xs[[true, false, true]]", [XS[0], XS[2]]),
    ("xs[1] <- x", [XS[0], X, XS[2]]),
    ("xs[[0, 2]] <- [x, z]", [X, XS[1], Z]),
    ("[(xs, [x, z, x])..]", [XS[0], X, XS[1], Z, XS[2], X]),
    ("xs[::-1]", XS[::-1]),
    ("[x ..(2), xs[1:]..]", [X, X, *XS[1:]]),
    ("[x ..(!f), z ..(f)]", [Z]),
    ("f ? xs[:2] : xs", XS[:2]),
    ("for a : xs[1:] do { yield a; }", XS[1:]),
]


@pytest.mark.parametrize(("expression", "expected"), PACKS)
def test_packs_of_tensors(expression: str, expected: list[Any]) -> None:
    length = len(expected)
    text = graph(f"ys = {expression};", f"ys: real[2]..({length});")
    (found,) = evaluate(text)
    assert [list(item) for item in found] == [list(item) for item in expected]


NUMBERS = [
    # components, the declared output y, and its value
    ("y = same(x, x);", "y: int[]", 1),
    ("y = same(x, z);", "y: int[]", 0),
    ("a = x; y = same(x, a);", "y: int[]", 1),
    ("y = same(xs[0], xs[-3]);", "y: int[]", 1),
    ("m = layout.stack{axis=0}([x, z, x]); y = properties(m, xs, ~);", "y: int[6]",
     [2, 3, 2, 2, 3, 3]),
    ("m = layout.stack{axis=0}([x, z, x]); y = properties(m, xs, x);", "y: int[6]",
     [2, 3, 2, 2, 3, 4]),
    ("m = layout.stack{axis=0}([x, z, x]); y, ~ = lowered(m);", "y: int[4]", [2, 3, 2, 2]),
    # a static condition after a dynamic one is decided when the graph is composed
    ("y = if c then x elif f then z else xs[0];", "y: real[2]", X),
    ("n_ = math.not(c); y = if n_ then x elif f then z else xs[0];", "y: real[2]", Z),
    ("n_ = math.not(c); y = if n_ then x elif !f then z else xs[0];", "y: real[2]", XS[0]),
    # an optional is promoted where all of a conjunction holds
    ("y = add_bias{f=true}(x, z);", "y: real[2]", X + Z),
    ("y = add_bias{f=false}(x, z);", "y: real[2]", X),
    ("y = add_bias{f=true}(x);", "y: real[2]", X),
    # carried packs keep their items apart
    ("ps..(2) = with p = [x, z] unroll..(3) swap(p); y = ps[0];", "y: real[2]", Z),
    ("ps..(2) = with p = [x, z] do..(3) swap(p); y = ps[1];", "y: real[2]", X),
    # a block may end with any tensor expression
    ("y = { a = neg(x); yield f ? a : x; };", "y: real[2]", -X),
]  # fmt: skip


@pytest.mark.parametrize(("compose", "output", "expected"), NUMBERS)
def test_numbers(compose: str, output: str, expected: Any) -> None:
    (found,) = evaluate(graph(compose, f"{output};"))
    np.testing.assert_array_equal(found, expected)


QUANTIZED = [
    ("y = neg(x);", "y: q;", -2 * X),
    ("y = neg(x);", "x: q{by=3.0}; y: q;", -6 * X),
    ("y = math.add(xs[0], xs[2]);", "xs: q;", 2 * (XS[0] + XS[2])),
    ("[a, y] = [x, z];", "a: q; y: q{by=4.0};", 4 * Z),
]


@pytest.mark.parametrize(("compose", "quantize", "expected"), QUANTIZED)
def test_inputs_outputs_and_packs_are_quantized(compose: str, quantize: str, expected: Any) -> None:
    text = graph(compose, rest=f"@quantize {{ {quantize} }}")
    np.testing.assert_array_equal(evaluate(text)[0], expected)
    plain = evaluate(text, quantize=False)[0]
    assert not np.array_equal(plain, expected)


def test_constants_of_a_pack_have_shapes_of_their_own() -> None:
    text = """graph G { @input { x: real[]; } @output { a: real[1]; b: real[3]; }
        @constant { c: real[..[1, 3]]..(2) = [2.0, 5.0]; } @compose { a = c[0]; b = c[1]; } }\n"""
    a, b = tvm_nnef.evaluate(text, np.array(0, np.float32))
    assert (a.tolist(), b.tolist()) == ([2.0], [5.0, 5.0, 5.0])


def test_variables_of_a_pack_have_a_file_each() -> None:
    text = """import math; graph G { @input { x: real[2]; } @output { y: real[2]; }
        @variable { w: real[2]..(2); } @compose { t = math.mul(x, w[0]); y = math.add(t, w[1]); }
        }\n"""
    values = {"main.G.w:1": np.array([2, 3], np.float32), "main.G.w:2": Z}
    model = tvm_nnef.load_model(text, variables=values)
    np.testing.assert_array_equal(tvm_nnef.evaluate(model, X)[0], X * [2, 3] + Z)


@pytest.mark.parametrize(("given", "dtype"), [("real", "f"), ("int", "i")])
def test_a_generic_graph_takes_the_type_that_is_given(given: str, dtype: str) -> None:
    text = """import math; graph G { @dtype { T: num; } @input { x: T[2]; } @output { y: T[2]; }
        @compose { y = math.add(x, T(3)); } }\n"""
    composed = tvm_nnef.compose(text, types={"T": given})
    operand = composed.outputs[0].operand
    assert isinstance(operand, Tensor)
    assert (operand.type, operand.shape) == (given, (2,))
    (found,) = tvm_nnef.evaluate(composed, np.array([1, 2], f"{dtype}4"))
    assert found.tolist() == [4, 5]
    assert found.dtype.kind == dtype


def test_nested_modules_are_read_from_subfolders(tmp_path: Path) -> None:
    (tmp_path / "parts" / "inner").mkdir(parents=True)
    operator = """operator op { @input { x: real[n]; } @output { y: real[n]; }
        @lower { y[i,] = x[i,] * FACTOR, i < n; } }\n"""
    (tmp_path / "op.sknd").write_text(operator.replace("FACTOR", "2.0"))
    (tmp_path / "parts" / "op.sknd").write_text(operator.replace("FACTOR", "3.0"))
    (tmp_path / "parts" / "inner" / "op.sknd").write_text(
        "import parts.op;\noperator op { @input { x: real[n]; } @output { y: real[n]; } "
        "@compose { t = parts.op.op(x); y = parts.op.op(t); } }\n"
    )
    (tmp_path / "main.sknd").write_text(
        "import op, parts.op, parts.inner.op;\n"
        "graph G { @input { x: real[2]; } @output { a: real[2]; b: real[2]; c: real[2]; } "
        "@compose { a = op.op(x); b = parts.op.op(x); c = parts.inner.op.op(x); } }\n"
    )
    found = tvm_nnef.evaluate(tmp_path, X)
    assert [item.tolist() for item in found] == [[2, 4], [3, 6], [9, 18]]


def test_a_count_from_data_ends_with_the_scanned_packs() -> None:
    text = graph("y = with s = x for a : xs do..(k) math.add(s, a);")
    for count, expected in ((0, X), (2, X + XS[0] + XS[1]), (9, X + sum(XS))):
        inputs = X, Z, XS, np.array(True), np.array(count, np.int32)
        np.testing.assert_array_equal(tvm_nnef.evaluate(text, *inputs)[0], expected)


NULL_TESTS = [
    ("?o", 1, 0), ("?(o + 1)", 1, 0), ("?[1, o]", 1, 0), ("?o ? o : 7", 5, 7),
    ("?o && o > 4", True, False), ("!?o", False, True), ("?[o, 2][0] ? 3 : 4", 3, 4),
]  # fmt: skip


@pytest.mark.parametrize(("text", "given", "omitted"), NULL_TESTS)
def test_null_tests_of_any_expression(
    text: str, given: Any, omitted: Any, value: Callable[..., Any]
) -> None:
    assert value(text, {"o": 5}) == given
    assert value(text, {"o": None}) == omitted
