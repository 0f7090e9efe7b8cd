"""Packs of dynamic length: made, scanned, stacked, returned; evaluator and compiled."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.stdlib.catalogue import standard_entries

IMPORTS = "import math; import layout;\n"
MAKE = "ys = for v : x do..(n) math.add(v, 1.0);"  # 1, 2, 3 … up to n
ITEMS = [np.full(2, step, np.float32) for step in range(5)]


@functools.cache
def built(text: str) -> tvm_nnef.Executable:
    """One executable for all values that a graph is given."""
    return tvm_nnef.build(text, progress=False)


def agreeing(body: str, *data: Any, output: str = "real") -> Any:
    """The output of a graph, which all routes must give."""
    inputs = "x: real[2]..(5); n: int[]; m: int[];"
    text = (
        f"{IMPORTS}graph G {{ @input {{ {inputs} }} @output {{ z: {output}; }} "
        f"@compose {{ {MAKE} {body} }} }}\n"
    )
    given = (ITEMS, *(np.array(value, np.int32) for value in data))
    (found,) = tvm_nnef.evaluate(text, *given)
    (compiled,) = built(text)(*given)
    np.testing.assert_array_equal(found, compiled)
    return found


SUM = "z = with s: real[2] = 0.0 for y : ys do math.add(s, y);"
TWICE = "zs = for y : ys do math.mul(y, 2.0); z = layout.stack{axis=0}(zs);"
WEIGHTED = (
    "zs = for y : ys do..(k -> m) { j = layout.cast<real>(k); w = math.mul(y, j); yield w; };"
    "z = layout.stack{axis=0}(zs);"
)
PAIRED = (
    "z = with s: real[2] = 0.0 for y : ys, v : x do "
    "{ a = math.mul(y, v); b = math.add(s, a); yield b; };"
)
UNTIL = (
    "z = with s: real[2] = 0.0 for y : ys while "
    "{ q = math.sum_reduce{axes=[0],squeeze=true}(s); c = math.lt(q, 5.0); yield c; } "
    "do math.add(s, y);"
)


@pytest.mark.sampled(20)
@pytest.mark.parametrize(("body", "n", "m", "expected"), [
    (SUM, 3, 0, [6, 6]),
    (SUM, 0, 0, [0, 0]),
    (SUM, 5, 0, [15, 15]),
    (TWICE, 3, 0, [[2, 2], [4, 4], [6, 6]]),
    (TWICE, 0, 0, np.zeros((0, 2))),
    (WEIGHTED, 3, 2, [[0, 0], [2, 2]]),
    (WEIGHTED, 3, 7, [[0, 0], [2, 2], [6, 6]]),
    (PAIRED, 5, 0, [40, 40]),  # 1*0 + 2*1 + 3*2 + 4*3 + 5*4
    (UNTIL, 5, 0, [3, 3]),  # 2 and then 6 are the sums of [1, 1] and [3, 3]
    (UNTIL, 1, 0, [1, 1]),
    ("z = layout.stack{axis=1}(ys);", 3, 0, [[1, 2, 3], [1, 2, 3]]),
    ("z = layout.concat{axis=0}(ys);", 3, 0, [1, 1, 2, 2, 3, 3]),
    ("z = layout.concat{axis=0}(ys);", 0, 0, []),
])  # fmt: skip
def test_values(body: str, n: int, m: int, expected: Any) -> None:
    np.testing.assert_array_equal(agreeing(body, n, m), np.array(expected, np.float32))


OWN = """import layout, own;
graph G { @input { x: real[s|5, 2]; } @output { a: real[2, s]; b: real[s, 2]; }
@compose {
    d..(s) = own.cut{axis=0, count=s}(x);
    e..(s) = own.apart{axis=0}(x);
    a = own.pile{axis=1}(e);
    b = own.chain{axis=0}(d);
} }
"""
OWN_NAMES = {"stack": "pile", "concat": "chain", "unstack": "apart", "split": "cut"}


def test_copies_of_the_standard_operators_take_and_give_such_packs(tmp_path: Path) -> None:
    copied = [
        entry.text.replace(f"operator {entry.name} ", f"operator {OWN_NAMES[entry.name]} ")
        for entry in standard_entries()
        if entry.module == "layout" and entry.name in OWN_NAMES
    ]
    (tmp_path / "own.sknd").write_text("\n".join(copied))
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    a, b = tvm_nnef.evaluate(OWN, x, search_path=[tmp_path])
    np.testing.assert_array_equal(a, x.T)
    np.testing.assert_array_equal(b, x)


def test_returned_as_a_list() -> None:
    found = agreeing("z = ys;", 2, 0, output="real[2]..")
    assert isinstance(found, list)
    np.testing.assert_array_equal(found, [[1, 1], [2, 2]])


IMPORTED = "import layout, math; "
A, B = np.arange(2, dtype=np.float32), np.arange(2, dtype=np.float32) + 5
PORTS = [
    ("draft", "x: real[s|5];", "y: real[1]..(s);", "y..(s) = layout.split{axis=0, count=s}(x);",
     [(A,), (np.zeros(1, np.float32),)], lambda x: ([each[None] for each in x],)),
    ("draft", "x: real[s|5, 2];", "y: real[2]..(s); z: real[s,2];",
     "y..(s) = layout.unstack{axis=0}(x); z = x;",
     [(np.stack([A, B, A]),), (np.zeros((0, 2), np.float32),)], lambda x: (list(x), x)),
    ("draft", "x: real[2, s|5];", "y: real[2,1]..;",
     "y..(s) = layout.unstack{axis=1, squeeze=false}(x);",
     [(np.stack([A, B]),)], lambda x: ([x[:, :1], x[:, 1:]],)),
    ("draft", "x: real[s|5]; xs: real[2]..(s);", "y: real[s,2];",
     "y = layout.stack{axis=0}(xs);",
     [(A, [A, B]), (A[:1], [B])], lambda x, xs: (np.stack(xs),)),
    ("tools", "xs: real[2]..(s|5);", "y: real[~]; z: real[2]..(s); v: real[2]..(s);",
     "y = layout.concat{axis=0}(xs); z = for x : xs do math.neg(x); v = xs;",
     [([A, B],), ([],), ([B],)],
     lambda xs: (np.array(xs, np.float32).reshape(-1), [-x for x in xs], xs)),
    ("tools", "xs: real[n|3]..(s|5);", "y: real[s,n];", "y = layout.stack{axis=0}(xs);",
     [([A, B],), ([A[:1]],)], lambda xs: (np.stack(xs),)),
    ("tools", "xs: real[2]..(s|5); zs: real[2]..(s);", "y: real[2];",
     "y = with a: real[2] = 0.0 for x : xs, z : zs do "
     "{ t = math.mul(x, z); b = math.add(a, t); yield b; };",
     [([A, B], [B, B])], lambda xs, zs: (xs[0] * zs[0] + xs[1] * zs[1],)),
]  # fmt: skip


@pytest.mark.sampled(9)
@pytest.mark.parametrize(("dialect", "inputs", "outputs", "body", "rows", "expected"), PORTS)
def test_inputs_and_outputs_are_lists(
    dialect: str, inputs: str, outputs: str, body: str, rows: Any, expected: Any, tmp_path: Any
) -> None:
    """Of the evaluator, of both compiled routes, and of a library that is loaded again."""
    text = (
        f"{IMPORTED} graph G {{ @input {{ {inputs} }} @output {{ {outputs} }} "
        f"@compose {{ {body} }} }}\n"
    )
    assert tvm_nnef.check(text, dialect=dialect) == []
    mapped = tvm_nnef.build(text, dialect=dialect, progress=False)
    formula = tvm_nnef.build(text, dialect=dialect, route="formula", progress=False)
    mapped.export(tmp_path / "model.so")
    loaded = tvm_nnef.load(tmp_path / "model.so")
    for given in rows:
        wanted = expected(*given)
        for found in (
            tvm_nnef.evaluate(text, *given, dialect=dialect),
            mapped(*given),
            formula(*given),
            loaded(*given),
        ):
            for actual, each in zip(found, wanted, strict=True):
                assert isinstance(actual, list) == isinstance(each, list)
                assert len(actual) == len(each)
                for one, other in zip(actual, each, strict=True):
                    np.testing.assert_array_equal(one, other)


TWO = (
    f"{IMPORTED} graph G {{ @input {{ x: real[s|5]; xs: real[2]..(s); }} "
    "@output { y: real[s,2]; } @compose { y = layout.stack{axis=0}(xs); } }\n"
)


@pytest.mark.parametrize(("given", "words"), [
    ((A, [A]), "s is 1, but input 'x' gave 2"),
    ((np.zeros(6, np.float32), [A] * 6), "beyond its bound 5"),
    ((A, [A, A[:1]]), "items of different shapes"),
    ((A, [A[:1], A[:1]]), "shape"),
    ((A, [A, None]), "expected real, got None"),
])  # fmt: skip
def test_wrong_lists_are_refused(given: Any, words: str) -> None:
    exe = tvm_nnef.build(TWO, progress=False)
    for run in (exe, lambda *data: tvm_nnef.evaluate(TWO, *data)):
        with pytest.raises(tvm_nnef.NnefError, match=words):
            run(*given)


def test_items_of_a_pack_of_dynamic_length_have_one_shape() -> None:
    text = (
        "graph G { @input { xs: real[..n|3]..(s|5); } @output { y: real; } "
        "@compose { y = xs[0]; } }\n"
    )
    (found,) = tvm_nnef.check(text, dialect="tools")
    assert "has a dimension per item" in found.message


def test_a_length_that_differs_from_its_declaration() -> None:
    text = (
        f"{IMPORTED} graph G {{ @input {{ x: real[s|5]; }} @output {{ y: real[]..(s + 1); }} "
        "@compose { y..(s) = layout.unstack{axis=0}(x); } }\n"
    )
    with pytest.raises(tvm_nnef.NnefError, match="'y' is a pack of"):
        tvm_nnef.evaluate(text, A)


def test_models_with_lists_are_compared() -> None:
    assert tvm_nnef.compare(TWO, A, [A, B]).agrees


def test_packs_that_are_scanned_together_have_one_length() -> None:
    with pytest.raises(tvm_nnef.NnefError, match=r"different lengths \[5, 3\]"):
        agreeing(PAIRED, 3, 0)


def lstm(x: Any, w: Any, r: Any, b: Any) -> Any:
    """The hidden states of all steps, gates in the order input, forget, cell, output."""
    h = c = np.zeros((x.shape[1], r.shape[1]))
    found = []
    for step in x:
        i, f, g, o = np.split(step @ w.T + h @ r.T + b, 4, axis=1)
        i, f, o = (1 / (1 + np.exp(-gate)) for gate in (i, f, o))
        c = f * c + i * np.tanh(g)
        h = o * np.tanh(c)
        found.append(h)
    return np.array(found).reshape(x.shape[0], x.shape[1], r.shape[1])


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("inputs", "body", "given", "expected"), [
    ("x: real[s|6,3];",
     "ys..(s) = layout.unstack{axis=0}(x); z = with a: real[3] = 0.0 for y : ys do math.add(a, y);",
     lambda n: (np.ones((n, 3)) * 2,), lambda x: x.sum(0)),
    ("x: real[3,s|6];",
     "ys..(s) = layout.unstack{axis=-1,squeeze=false}(x); zs..(s) = for y : ys do math.mul(y, y);"
     "z = layout.concat{axis=1}(zs);",
     lambda n: (np.arange(3.0 * n).reshape(3, n),), lambda x: x * x),
    ("x: real[s|6,b|3,2]; w: real[12,2]; r: real[12,3]; c: real[12];",
     "z, ~, ~ = nn.lstm(x, w, r, c);",
     lambda n: tuple(np.random.default_rng(n).standard_normal(shape) for shape in
                     ((n, 1 + n % 3, 2), (12, 2), (12, 3), (12,))), lstm),
])  # fmt: skip
def test_tensors_taken_apart_along_a_symbol(
    inputs: str, body: str, given: Any, expected: Any
) -> None:
    text = (
        f"import nn; {IMPORTS}graph G {{ @input {{ {inputs} }} @output {{ z: real; }} "
        f"@compose {{ {body} }} }}\n"
    )
    exe = tvm_nnef.build(text, progress=False)
    for size in (0, 1, 4, 6):
        data = tuple(np.asarray(array, np.float32) for array in given(size))
        for (found,) in (exe(*data), tvm_nnef.evaluate(text, *data)):
            np.testing.assert_allclose(found, expected(*data), rtol=1e-5, atol=1e-6)
