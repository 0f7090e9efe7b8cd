"""Symbols of an invocation: attributes, shapes, helpers and checks (sections 2.5 to 2.9, 2.13)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

Bound = Callable[..., dict[str, Any]]
Unbound = Callable[..., Any]

# Blocks, operands, attributes, and what some of the names must stand for.
CASES: list[tuple[str, tuple[Any, ...], dict[str, Any], dict[str, Any]]] = [
    # attributes (2.5)
    ("@attrib { a: int = 42; }", (), {}, {"a": 42}),
    ("@attrib { a: int = 42; }", (), {"a": 7}, {"a": 7}),
    ("@attrib { a: int..(k) = []; }", (), {}, {"a": (), "k": 0}),
    ("@attrib { a: int..(k) = [1,2]; }", (), {"a": (1, 2, 3)}, {"a": (1, 2, 3), "k": 3}),
    ("@attrib { r: int; a: int.. = [0:r]; }", (), {"r": 3}, {"a": (0, 1, 2)}),
    ("@attrib { a: int.. = [0:r]; r: int; }", (), {"r": 3}, {"a": (0, 1, 2)}),
    ("@attrib { r: int; a: int..(r) = 0; }", (), {"r": 2}, {"a": (0, 0)}),
    ("@attrib { r: int; a: int..(r); }", (), {"r": 2, "a": 5}, {"a": (5, 5)}),
    ("@attrib { r: int; a: int..(r); }", (), {"r": 2, "a": (5, 6)}, {"a": (5, 6)}),
    ("@attrib { a: int..(r) = [3,4]; b: int..(r) = 1; }", (), {}, {"r": 2, "b": (1, 1)}),
    ("@attrib { b: int..(r) = 1; a: int..(r) = [3,4]; }", (), {}, {"r": 2, "b": (1, 1)}),
    ("@attrib { a: optional int; }", (), {}, {"a": None}),
    ("@attrib { a: optional int; }", (), {"a": 1}, {"a": 1}),
    ("@attrib { r: optional int; a: int..(k) = [0:r]; }", (), {"r": 2}, {"a": (0, 1), "k": 2}),
    ("@attrib { r: optional int; a: int..(k) = [0:r]; }", (), {"a": (9,)}, {"r": None, "k": 1}),
    ("@attrib { a: optional int..(k); } @using { n = k ?? 0; }", (), {}, {"k": None, "n": 0}),
    ("@attrib { a: int; b: int = a + 1; c: int = b * 2; }", (), {"a": 1}, {"b": 2, "c": 4}),
    ("@attrib { a: real..; }", (), {"a": (1, 2.5)}, {"a": (1.0, 2.5)}),
    ("@attrib { a: int..(2 * k); }", (), {"a": (1, 2, 3, 4)}, {"k": 2}),
    ("@attrib { r: int = x.rank; s: int.. = x.shape; } @input { x: real[t..]; }", ((2, 3),), {},
     {"r": 2, "s": (2, 3)}),
    # shapes (2.6)
    ("@input { x: real[m,n]; }", ((2, 3),), {}, {"m": 2, "n": 3}),
    ("@input { x: real[s..(d)]; }", ((2, 3),), {}, {"s": (2, 3), "d": 2}),
    ("@input { x: real[s..(d)]; }", ((),), {}, {"s": (), "d": 0}),
    ("@input { x: real[b, s.., c]; }", ((2, 3, 4, 5),), {}, {"b": 2, "s": (3, 4), "c": 5}),
    ("@input { x: real^(r)[s..(d),z..(1)]; }", ((2, 3, 4),), {}, {"r": 3, "d": 2, "z": (4,)}),
    ("@input { x: real[m,k]; y: real[k,n]; }", ((2, 3), (3, 4)), {}, {"m": 2, "k": 3, "n": 4}),
    ("@attrib { n: int; } @input { x: real[m, k + 1, s..(2 * d), n / 2]; }",
     ((7, 5, 2, 3, 4, 6, 3),), {"n": 6}, {"m": 7, "k": 4, "s": (2, 3, 4, 6), "d": 2}),
    ("@input { x: real[2 * n + 1]; }", ((7,),), {}, {"n": 3}),
    ("@input { x: real[10 - n]; }", ((7,),), {}, {"n": 3}),
    ("@input { x: real[n, 2 * n]; }", ((3, 6),), {}, {"n": 3}),
    ("@input { x: real[s..(d), t..(d)]; y: real[t..(d)]; }", ((2, 3, 4, 5), (4, 5)), {},
     {"s": (2, 3), "t": (4, 5), "d": 2}),
    ("@input { x: real[(2 * s)..(d)]; }", ((2, 6),), {}, {"s": (1, 3)}),
    ("@attrib { f: bool; } @input { x: real[c..(f), n]; }", ((2, 3),), {"f": True},
     {"c": 2, "n": 3}),
    ("@attrib { f: bool; } @input { x: real[c..(f), n]; }", ((3,),), {"f": False},
     {"c": None, "n": 3}),
    ("@attrib { f: bool; } @input { x: real[c..(f), s.., c..(!f)]; }", ((2, 3, 4),), {"f": True},
     {"c": 2, "s": (3, 4)}),
    ("@attrib { f: bool; } @input { x: real[c..(f), s.., c..(!f)]; }", ((2, 3, 4),), {"f": False},
     {"c": 4, "s": (2, 3)}),
    ("@attrib { a: optional int; } @input { x: real[a, n]; }", ((3,),), {}, {"n": 3}),
    ("@attrib { a: optional int; } @input { x: real[a, n]; }", ((2, 3),), {"a": 2}, {"n": 3}),
    ("@attrib { size: int..; } @input { x: real[size..]; }", ((2, 3),), {"size": (2, 3)},
     {"size": (2, 3)}),
    # packs of tensors
    ("@input { xs: real[z, s..(l), ..t]..(k); }", ([(2, 3, 4), (2, 3, 5)],), {},
     {"z": 2, "s": (3,), "l": 1, "t": (4, 5), "k": 2}),
    ("@input { xs: real[..(2 * t)]..; }", ([(2,), (6,)],), {}, {"t": (1, 3)}),
    ("@attrib { t: int..; } @input { xs: real[..t]..; }", ([(2,), (6,)],), {"t": (2, 6)}, {}),
    ("@input { xs: real[..t]..(k); }", ([],), {}, {"t": (), "k": 0}),
    ("@input { xs: real[n]..(2 * k); }", ([(1,)] * 4,), {}, {"k": 2, "n": 1}),
    # optional and default inputs
    ("@input { x: real[n]; y: optional real[n, m]; }", ((3,), None), {}, {"m": None, "n": 3}),
    ("@input { x: real[n]; y: optional real[n, m]; }", ((3,), (3, 4)), {}, {"m": 4}),
    ("@input { y: optional real[a.., n]; x: real[n]; } @using { q = (a + ..) ?? -1; }",
     (None, (3,)), {}, {"q": -1}),
    ("@input { y: optional real[a.., n]; x: real[n]; } @using { q = (a + ..) ?? -1; }",
     ((2, 2, 3), (3,)), {}, {"q": 4}),
    # helpers (2.9)
    ("@attrib { a: int; } @input { x: real[s..(d)]; } @using { c = a + d; }", ((1, 1),), {"a": 3},
     {"c": 5}),
    ("@attrib { c: int..; } @using { [a, b..] = c; }", (), {"c": (1, 2, 3)}, {"a": 1, "b": (2, 3)}),
    ("@attrib { c: int..; } @using { [a.., b] = c; }", (), {"c": (1, 2, 3)}, {"a": (1, 2), "b": 3}),
    ("@attrib { c: int..; } @using { [a..(2), b..] = c; }", (), {"c": (1, 2, 3)},
     {"a": (1, 2), "b": (3,)}),
    ("@attrib { c: int..; } @using { [(e,f)..] = c; }", (), {"c": (1, 2, 3, 4)},
     {"e": (1, 3), "f": (2, 4)}),
    ("@attrib { c: int..; } @using { [h, (e,f)..] = c; }", (), {"c": (0, 1, 2, 3, 4)},
     {"h": 0, "e": (1, 3), "f": (2, 4)}),
    ("@attrib { c: int..; } @using { [a, b..] = c; d..(2) = b; }", (), {"c": (1, 2, 3)},
     {"d": (2, 3)}),
    ("@attrib { c: optional int..; } @using { [a, b..] = c; }", (), {}, {"a": None, "b": None}),
    # asserts (2.8): null conditions are skipped, packs are folded
    ("@attrib { a: optional int; } @assert { a > 0; }", (), {}, {}),
    ("@attrib { a: int..; } @assert { a > 0; }", (), {"a": (1, 2)}, {}),
    ("@attrib { a: int..; } @assert { a > 0; }", (), {"a": ()}, {}),
]  # fmt: skip


@pytest.mark.parametrize(("blocks", "operands", "attributes", "expected"), CASES)
def test_symbols(
    bound: Bound,
    blocks: str,
    operands: tuple[Any, ...],
    attributes: dict[str, Any],
    expected: dict[str, Any],
) -> None:
    names = bound(blocks, *operands, **attributes)
    assert {name: names[name] for name in expected} == expected


REFUSED: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("@attrib { a: int; }", (), {}, "attribute 'a' must be given"),
    ("@attrib { a: int; }", (), {"a": 1, "b": 2}, "has no attribute 'b'"),
    ("@attrib { a: int; }", (), {"a": "x"}, "'a' must be of type int, found str"),
    ("@attrib { a: int; }", (), {"a": (1,)}, "takes a single value"),
    ("@attrib { r: optional int; a: int..(k) = [0:r]; }", (), {}, "attribute 'a' must be given"),
    ("@attrib { a: int..(k); }", (), {"a": 1}, "the length of attribute 'a' cannot be deduced"),
    ("@attrib { r: int; a: int..(r); }", (), {"r": 2, "a": (1,)}, "must have 2 items, found 1"),
    ("@attrib { a: int..(2 * k); }", (), {"a": (1,)}, "is 1, which is not '2 * k' for any 'k'"),
    ("@attrib { n: int = m * 2; m: int; } @input { x: real[n]; }", ((5,),), {"m": 2},
     "attribute 'n' has two values: 4 and 5"),
    ("@attrib { size: int..; } @input { x: real[size..]; }", ((2, 4),), {"size": (2, 3)},
     "expected dimension 'size' = [2, 3], found [2, 4]"),
    ("@input { x: real[2]; }", ((3,),), {}, "expected dimension 2, found 3"),
    ("@input { x: real[m,n]; }", ((2,),), {}, "expected rank 2, found rank 1"),
    ("@input { x: real[m,n,s..]; }", ((2,),), {}, "expected rank 2 or more, found rank 1"),
    ("@attrib { a: int; } @input { x: real[s..(a), t..]; }", ((2,),), {"a": 2},
     "expected rank 2 or more for a = 2, found rank 1"),
    ("@attrib { a: int; } @input { x: real^(r)[s..(a), t..]; } @assert { a < r: 'too large'; }",
     ((2,),), {"a": 2}, "too large"),
    ("@attrib { a: int; } @input { x: real[s..(a), t..]; } @assert { a >= 0: 'negative', a; }",
     ((2,),), {"a": -1}, "negative; a = -1"),
    ("@input { x: real[m,k]; y: real[k,n]; }", ((2, 3), (4, 4)), {},
     "expected dimension 'k' = 3, found 4 on axis 0"),
    ("@input { x: real[2 * n + 1]; }", ((6,),), {}, "is 6, which is not '2 * n + 1'"),
    ("@input { x: real[n + 4]; }", ((3,),), {}, "is 3, which is not 'n + 4'"),
    ("@input { x: real[s..(2 * d)]; }", ((1, 2, 3),), {}, "is 3, which is not '2 * d'"),
    ("@input { x: real[s..(d), t..(d)]; y: real[t..(d)]; }", ((2, 3, 4, 5), (9, 5)), {},
     "expected dimension 't'"),
    ("@attrib { n: int; } @input { x: real[n / 2]; }", ((4,),), {"n": 6}, "= 3, found 4"),
    ("@input { xs: real[n]..; }", ([(1,), (2,)],), {}, "expected dimension 'n' = 1, found 2"),
    ("@input { xs: real[n]..; }", ([(1,), (2, 3)],), {}, "items of different ranks [1, 2]"),
    ("@input { x: real^(r)[s..]; y: real^(r)[t..]; }", ((1,), (1, 2)), {},
     "'r' has two values: 1 and 2"),
    ("@input { xs: real[n]..(2 * k); }", ([(1,)] * 3,), {}, "the length of 'xs' is 3"),
    ("@attrib { k: int; } @input { xs: real[n]..(k); }", ([(1,)] * 3,), {"k": 2},
     "must be 'k' = 2, found 3"),
    ("@input { x: real[n]; }", (None,), {}, "input 'x' of 'main.op' is missing"),
    ("@input { x: real[n]; }", ([(1,)],), {}, "takes a single tensor, found a pack"),
    ("@input { xs: real[n]..; }", ((1,),), {}, "takes a pack of tensors"),
    ("@attrib { c: int..; } @using { [a, b] = c; }", (), {"c": (1, 2, 3)},
     "a pack of length 3 does not fit the list on the left"),
    ("@attrib { c: int..; } @using { [a, b..] = c; }", (), {"c": ()}, "does not fit"),
    ("@attrib { c: int..; } @using { [(a, b)..] = c; }", (), {"c": (1, 2, 3)}, "unzipped"),
    ("@attrib { c: int..; } @using { a..(2) = c; }", (), {"c": (1, 2, 3)},
     "a pack of length 3, declared to be 2 long"),
    ("@attrib { a: int..; } @assert { a > 0; }", (), {"a": (1, -2)}, "'a > 0' does not hold"),
]  # fmt: skip


@pytest.mark.parametrize(("blocks", "operands", "attributes", "words"), REFUSED)
def test_refuses(
    unbound: Unbound,
    blocks: str,
    operands: tuple[Any, ...],
    attributes: dict[str, Any],
    words: str,
) -> None:
    error = unbound(blocks, words, *operands, **attributes)
    assert all(diagnostic.line == 1 for diagnostic in error.diagnostics)


EXAMPLE_2_6_1 = """
    @attrib { r: int; a: optional int; b: int..(d) = 0; c: int = 2 * d + r; }
    @input { x: real[s..(r),z..(d),t..]; y: real[s..(r),z..(d)]; }
"""


def test_binding_order_of_the_draft(bound: Bound) -> None:
    names = bound(EXAMPLE_2_6_1, (2, 3, 4, 5), (2, 3, 4), r=1)
    wanted = {"s": (2,), "z": (3, 4), "t": (5,), "d": 2, "a": None, "b": (0, 0), "c": 5}
    assert {name: names[name] for name in wanted} == wanted


INTERLEAVED = """
    @attrib { a: int; b: int; c: int; }
    @using { r = a / b; }
    @assert {
        r + c == 42: "some condition must be true for a/b and c";
        b > 0: "b must be positive", b;
        a % b == 0: "a must be divisible by b", a, b;
    }
"""


@pytest.mark.parametrize(("a", "b", "c", "words"), [
    (6, 0, 1, "b must be positive; b = 0"),
    (7, 2, 1, "a must be divisible by b; a = 7, b = 2"),
    (6, 2, 1, "some condition must be true"),
])  # fmt: skip
def test_checks_run_before_the_helpers_that_need_them(
    unbound: Unbound, a: int, b: int, c: int, words: str
) -> None:
    unbound(INTERLEAVED, words, a=a, b=b, c=c)


def test_checks_that_hold(bound: Bound) -> None:
    assert bound(INTERLEAVED, a=6, b=2, c=39)["r"] == 3


def test_labels_of_a_failed_check(unbound: Unbound) -> None:
    blocks = """@attrib { a: int; s: str; }
        @assert { a > 0: "bad {s}: {a + 1}", a * 2, "twice {s}": a * 2, size: s; }"""
    unbound(blocks, "bad hey: -2; a * 2 = -6, twice hey = -6, size = 'hey'", a=-3, s="hey")


def test_helpers_that_only_a_label_needs(unbound: Unbound) -> None:
    blocks = """@attrib { a: int; } @using { h = a * 2; k = h + 1; z = 1 / (a + 3); }
        @assert { a > 0: "bad", k, z; }"""
    unbound(blocks, "bad; k = -5", a=-3)


def test_default_input_takes_the_declared_shape(bound: Bound) -> None:
    blocks = "@input { x: real[n]; h: real[n] = 0.5; i: int[] = 3; }"
    names = bound(blocks, (4,), None, None)
    assert (names["h"].shape, names["h"].value, names["h"].type) == ((4,), 0.5, "real")
    assert (names["i"].shape, names["i"].value, names["i"].type) == ((), 3, "int")


def test_default_of_a_packed_input_has_a_tensor_for_each_item(bound: Bound) -> None:
    names = bound("@input { xs: real[]..(k) = [1.0, 2.0]; }", None)
    assert [tensor.value for tensor in names["xs"]] == [1.0, 2.0]


GENERIC = "@dtype { T: num; S: type = real; } @attrib { v: optional S; } @input { x: T[n]; }"


def test_generic_types_are_deduced_defaulted_or_given(composed: Callable[..., Any]) -> None:
    text = """
        operator op { @dtype { T: num; S: type = real; } @attrib { v: optional S; }
            @input { x: T[n]; } @output { y: T[n]; } @lower { y[i,] = x[i,], i < n; } }
        graph G { @input { x: int[2]; } @output { a: int[2]; }
            @compose { a = op(x); b = op{v='w'}(x); c = op<int, bool>(x); } }
    """
    types = [dict(operation.types) for operation in composed(text).operations]
    assert types == [{"T": "int", "S": "real"}, {"T": "int", "S": "str"}, {"T": "int", "S": "bool"}]


@pytest.mark.parametrize(("blocks", "operands", "attributes", "words"), [
    ("@dtype { T: num; } @attrib { v: optional T; }", (), {}, "type 'T' cannot be deduced"),
    ("@dtype { T: num; } @attrib { v: T; }", (), {"v": "s"}, "must be one of int, real"),
    ("@dtype { T: arith; } @attrib { v: T; w: T; }", (), {"v": 1, "w": True}, "must be of type"),
])  # fmt: skip
def test_generic_types_refused(
    unbound: Unbound,
    blocks: str,
    operands: tuple[Any, ...],
    attributes: dict[str, Any],
    words: str,
) -> None:
    unbound(blocks, words, *operands, **attributes)


@given(st.integers(-4, 4).filter(bool), st.integers(-9, 9), st.integers(0, 20))
def test_affine_dimensions_are_solved(bound: Bound, scale: int, offset: int, unknown: int) -> None:
    extent = scale * unknown + offset
    if extent >= 0:
        names = bound(f"@input {{ x: real[{scale} * n + {offset}]; }}", (extent,))
        assert names["n"] == unknown
