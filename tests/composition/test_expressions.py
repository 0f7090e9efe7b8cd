"""Every expression of section 2.4 on known values; the expected values are worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_nnef.composition.evaluate import known
from tvm_nnef.composition.values import Environment
from tvm_nnef.graph import formula
from tvm_nnef.graph.nodes import Tensor
from tvm_nnef.syntax import parse_expression

NAMES: dict[str, Any] = {
    "n": 3, "z": 0, "r": 2.5, "t": True, "f": False, "s": "hello",
    "a": (1, 2, 3), "b": (4, 5, 6), "c": (1.0, 2.0), "e": (), "m": (True, False, True),
    "words": ("x", "y"), "null": None, "repeated": (2, 1, 2),
}  # fmt: skip

CASES = [
    # literals and default values
    ("123", 123),
    ("1.23", 1.23),
    ("1e-5", 1e-5),
    ("1.", 1.0),
    ("true", True),
    ("false", False),
    ("inf", math.inf),
    ("-inf", -math.inf),
    ("pi", math.pi),
    ("'one' 'two'", "onetwo"),
    ("int()", 0),
    ("real()", 0.0),
    ("bool()", False),
    ("str()", ""),
    # lists and expansion
    ("[1, n, 3]", (1, 3, 3)),
    ("[]", ()),
    ("[0, a.., 9]", (0, 1, 2, 3, 9)),
    ("[a.., b..]", (1, 2, 3, 4, 5, 6)),
    ("[e.., e..]", ()),
    ("[n..(5)]", (3, 3, 3, 3, 3)),
    ("[1 ..(2), 0]", (1, 1, 0)),
    ("[n..(0)]", ()),
    ("[n..(t), 7 ..(f)]", (3,)),
    ("[a..(3)]", (1, 2, 3)),
    ("[a + 1 ..]", (2, 3, 4)),
    # ranges
    ("[0:4]", (0, 1, 2, 3)),
    ("[1:n]", (1, 2)),
    ("[0:7:2]", (0, 2, 4, 6)),
    ("[0:8:2]", (0, 2, 4, 6)),
    ("[3:0:-1]", (3, 2, 1)),
    ("[3:0]", ()),
    ("[0:3:-1]", ()),
    ("[0, 2:n + 2, b..]", (0, 2, 3, 4, 4, 5, 6)),
    # zips
    ("[(a,b)..]", (1, 4, 2, 5, 3, 6)),
    ("[(a,b,a)..]", (1, 4, 1, 2, 5, 2, 3, 6, 3)),
    ("[(e,e)..]", ()),
    ("[0, (a,b)..(3), 9]", (0, 1, 4, 2, 5, 3, 6, 9)),
    # indexing of packs
    ("a[0]", 1),
    ("a[2]", 3),
    ("a[-1]", 3),
    ("a[-3]", 1),
    ("a[[2,0,0]]", (3, 1, 1)),
    ("a[e]", ()),
    ("a[[-1,-2]]", (3, 2)),
    ("a[0:2]", (1, 2)),
    ("a[1:]", (2, 3)),
    ("a[:-1]", (1, 2)),
    ("a[-2:]", (2, 3)),
    ("a[:]", (1, 2, 3)),
    ("a[::-1]", (3, 2, 1)),
    ("a[::2]", (1, 3)),
    ("a[1::-1]", (2, 1)),
    ("a[:0:-1]", (3, 2)),
    ("a[2:-1:-1]", ()),
    ("a[1:1]", ()),
    ("a[m]", (1, 3)),
    ("a[a > 1]", (2, 3)),
    ("[(a,b)..][0::2]", (1, 2, 3)),
    # strings
    ("s[0]", "h"),
    ("s[-1]", "o"),
    ("s[1:3]", "el"),
    ("s[::-1]", "olleh"),
    ("s[[0,4]]", "ho"),
    ("s[5:]", ""),
    # substitution
    ("a[0] <- 9", (9, 2, 3)),
    ("a[-1] <- 9", (1, 2, 9)),
    ("a[[0,2]] <- [8,9]", (8, 2, 9)),
    ("a[0:2] <- b[0:2]", (4, 5, 3)),
    ("a[[1,1]] <- [8,9]", (1, 9, 3)),
    ("a[e] <- e", (1, 2, 3)),
    ("a[0] <- t ? 5 : 6", (5, 2, 3)),
    # unary operators
    ("-n", -3),
    ("+n", 3),
    ("-r", -2.5),
    ("!t", False),
    ("-a", (-1, -2, -3)),
    ("!m", (False, True, False)),
    # arithmetic
    ("2 + 3 * 4", 14),
    ("n - 5", -2),
    ("7 / 2", 3),
    ("-7 / 2", -4),
    ("7 / -2", -4),
    ("7 \\ 2", 4),
    ("-7 \\ 2", -3),
    ("7 \\ -2", -3),
    ("6 \\ 2", 3),
    ("7 % 3", 1),
    ("-7 % 3", 2),
    ("7 % -3", -2),
    ("7.0 / 2.0", 3.5),
    ("1.0 / 0.0", math.inf),
    ("1.0 / -0.0", -math.inf),
    ("7.5 % 2.0", 1.5),
    ("-7.5 % 2.0", -1.5),
    ("7.0 \\ 2.0", 4.0),
    ("2 ** 10", 1024),
    ("2 ** 3 ** 2", 64),
    ("-2 ** 2", -4),
    ("2 ** -1", 0),
    ("-1 ** 2", -1),
    ("(-1) ** -3", -1),
    ("(-1) ** 100000000000", 1),
    ("0 ** 0", 1),
    ("2.0 ** 0.5", math.sqrt(2.0)),
    ("2.0 ** -1.0", 0.5),
    ("-2.0 ** 3.0", -8.0),
    ("(-2.0) ** 3333.0", -math.inf),
    ("2 << 3", 2),
    ("2 >> 3", 3),
    ("2.0 >> 3.5", 3.5),
    ("a + b", (5, 7, 9)),
    ("a * 2", (2, 4, 6)),
    ("10 - a", (9, 8, 7)),
    ("a << 2", (1, 2, 2)),
    ("a / [1,2,2]", (1, 1, 1)),
    ("e + e", ()),
    ("e + 1", ()),
    # logic and comparisons
    ("t && f", False),
    ("t || f", True),
    ("t ^ t", False),
    ("t ^ f", True),
    ("t => f", False),
    ("f => f", True),
    ("f => t", True),
    ("1 < 2", True),
    ("2 <= 2", True),
    ("2.5 > r", False),
    ("2.5 >= r", True),
    ("s == 'hello'", True),
    ("s != 'hello'", False),
    ("t == f", False),
    ("a == [1,0,3]", (True, False, True)),
    ("a < b && m", (True, False, True)),
    # select
    ("t ? 1 : 2", 1),
    ("f ? 1 : 2", 2),
    ("t ? 1", 1),
    ("f ? 1", None),
    ("f ? a : e", ()),
    ("t ? a : 0", (1, 2, 3)),
    ("m ? a : b", (1, 5, 3)),
    ("m ? 0 : b", (0, 5, 0)),
    ("m ? a", None),
    ("a > 0 ? b", (4, 5, 6)),
    ("a > 0 ? 7", (7, 7, 7)),
    ("f ? 1 : t ? 2 : 3", 2),
    # identity
    ("n is 3", True),
    ("n is 4", False),
    ("s is 'hello'", True),
    ("a is [1,0,3]", (True, False, True)),
    ("a is 1", (True, False, False)),
    # folds
    ("a + ..", 6),
    ("b * ..", 120),
    ("c + ..", 3.0),
    ("a << ..", 1),
    ("a >> ..", 3),
    ("m && ..", False),
    ("m || ..", True),
    ("a < ..", True),
    ("[1,2,2] < ..", False),
    ("[1,2,2] <= ..", True),
    ("[3,2,2] >= ..", True),
    ("[3,2,2] > ..", False),
    ("[3,2,1] > ..", True),
    ("a == ..", False),
    ("[2,2,2] == ..", True),
    ("a != ..", True),
    ("repeated != ..", False),
    ("words != ..", True),
    ("[7] := ..", 7),
    ("[n..(3)] := ..", 3),
    ("a := ..", None),
    ("(a * 0) := ..", 0),
    ("a + .. + 42", 48),
    ("2 * a + ..", 12),
    # folds of empty packs
    ("e + ..", 0),
    ("e * ..", 1),
    ("e && ..", True),
    ("e || ..", False),
    ("e < ..", True),
    ("e <= ..", True),
    ("e > ..", True),
    ("e >= ..", True),
    ("e != ..", True),
    ("e == ..", True),
    ("e << ..", None),
    ("e >> ..", None),
    ("e := ..", None),
    # cumulative folds
    ("a + ...", (1, 3, 6)),
    ("a * ...", (1, 2, 6)),
    ("[3,1,2] << ...", (3, 1, 1)),
    ("[1,3,2] >> ...", (1, 3, 3)),
    ("m && ...", (True, False, False)),
    ("[false,true,false] || ...", (False, True, True)),
    ("e + ...", ()),
    # containment
    ("2 in a", True),
    ("7 in a", False),
    ("b in [4,6]", (True, False, True)),
    ("'x' in words", True),
    ("1 in e", False),
    ("e in a", ()),
    # null tests and coalescing
    ("?null", False),
    ("?n", True),
    ("?e", True),
    ("null ?? 5", 5),
    ("null ?? a", (1, 2, 3)),
    ("null ?? e", ()),
    ("(e >> ..) ?? 0", 0),
    ("?null ? null : 0", 0),
    ("?null && null > 0 ? 1 : 2", 2),
    ("!?null || null > 0", True),
    ("?null => null > 0", True),
    ("n > 0 && ?null && null > 0", False),
    ("n > 9 && null > 0", None),
    # casts
    ("real(n)", 3.0),
    ("int(2.7)", 2),
    ("int(-2.7)", -2),
    ("bool(2)", True),
    ("bool(0.0)", False),
    ("int(t)", 1),
    ("real(t)", 1.0),
    ("int(n)", 3),
    ("real(a)", (1.0, 2.0, 3.0)),
    # built-in functions
    ("`sqrt`(4.0)", 2.0),
    ("`exp`(0.0)", 1.0),
    ("`log`(1.0)", 0.0),
    ("`log`(0.0)", -math.inf),
    ("`exp`(1e4)", math.inf),
    ("`sinh`(-1e4)", -math.inf),
    ("`cosh`(-1e4)", math.inf),
    ("`atanh`(-1.0)", -math.inf),
    ("`sin`(0.0)", 0.0),
    ("`cos`(0.0)", 1.0),
    ("`tan`(0.0)", 0.0),
    ("`asin`(1.0)", math.pi / 2),
    ("`acos`(1.0)", 0.0),
    ("`atan`(1.0)", math.pi / 4),
    ("`tanh`(inf)", 1.0),
    ("`asinh`(0.0)", 0.0),
    ("`acosh`(1.0)", 0.0),
    ("`erf`(inf)", 1.0),
    ("`round`(2.5)", 3.0),
    ("`round`(-2.5)", -3.0),
    ("`round`(-0.5)", -1.0),
    ("`round`(0.49999999999999994)", 0.0),
    ("`round`(-inf)", -math.inf),
    ("`floor`(-1.5)", -2.0),
    ("`floor`(-inf)", -math.inf),
    ("`ceil`(-1.5)", -1.0),
    ("`frac`(-1.25)", -0.25),
    ("`frac`(1.25)", 0.25),
    ("`abs`(-3)", 3),
    ("`abs`(-2.5)", 2.5),
    ("`sign`(-3)", -1),
    ("`sign`(0)", 0),
    ("`sign`(2.5)", 1.0),
    ("`abs`([-1,2])", (1, 2)),
    # formatting
    ("'n = {n + 2}'", "n = 5"),
    ("'{s}, {t}, {r}'", "hello, true, 2.5"),
    ("'{a}'", "[1, 2, 3]"),
    ("'\\{n\\}'", "{n}"),
    ("'{null}'", None),
    ("''", ""),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_value(value: Callable[..., Any], text: str, expected: Any) -> None:
    found = value(text, NAMES)
    assert found == expected
    assert type(found) is type(expected)
    if isinstance(expected, tuple):
        assert [type(item) for item in found] == [type(item) for item in expected]


@pytest.mark.parametrize("text", [
    "-null", "null + 1", "1 + null", "null && f", "f && null", "a + null", "null ? 1 : 2",
    "m ? null : a", "[1, null]", "[null..]", "[null ..(2)]", "[1 ..(null)]", "[0:null]",
    "[null:2]", "[0:4:null]", "[(a, null)..]", "null[0]", "a[null]", "a[null:]", "a[:null]",
    "a[::null]", "a[null] <- 1", "null[0] <- 1", "a[0] <- null", "null + ..", "null + ...",
    "null in a", "1 in null", "null is 1", "real(null)", "`abs`(null)", "null ?? null",
])  # fmt: skip
def test_null_propagates(value: Callable[..., Any], text: str) -> None:
    assert value(text, NAMES) is None


@pytest.mark.parametrize(("text", "words"), [
    ("1 / z", "division by zero"),
    ("1 \\ z", "division by zero"),
    ("1 % z", "division by zero"),
    ("z ** -1", "division by zero"),
    ("a / z", "division by zero"),
    ("-(1 / z)", "division by zero"),
    ("(1 / z) + ..", "division by zero"),
    ("(a / [1,0,1]) + ..", "division by zero"),
    ("real(1 / z)", "division by zero"),
    ("'{1 / z}'", "division by zero"),
    ("a + c[0:1]", "packs of different lengths: 3 and 1"),
    ("a + [1,2]", "packs of different lengths: 3 and 2"),
    ("m ? a : [1,2]", "packs of different lengths"),
    ("[(a,[1,2])..]", "different lengths"),
    ("a[[true,false]]", "a mask must be as long"),
    ("a[3]", "index 3 is outside of a pack of length 3"),
    ("a[-4]", "index -4 is outside"),
    ("s[5]", "index 5 is outside of a string of length 5"),
    ("a[::z]", "a stride must not be zero"),
    ("[0:4:z]", "a stride must not be zero"),
    ("a[3] <- 1", "position 3 is outside"),
    ("a[[0,1]] <- [1,2,3]", "2 positions and 3 values"),
    ("[1 ..(-1)]", "must not be negative"),
    ("[a..(2)]", "declared to be 2 long"),
    ("[n..]", "only a pack can be expanded"),
    ("[a]", "a pack cannot be an item of a list"),
    ("missing + 1", "'missing' is not defined"),
    ("9223372036854775807 + 1", "does not fit into 64 bits"),
    ("99999999999999999999", "does not fit into 64 bits"),
    ("2 ** 64", "does not fit into 64 bits"),
    ("int(1e300)", "does not fit into 64 bits"),
    ("int(inf / inf)", "NaN has no integer value"),
    ("[0:9223372036854775807]", "longer than the limit"),
    ("[1 ..(9223372036854775807)]", "longer than the limit"),
    ("2 ** 9223372036854775807", "does not fit into 64 bits"),
])  # fmt: skip
def test_no_value(undefined: Callable[..., None], text: str, words: str) -> None:
    undefined(text, words, NAMES)


@pytest.mark.parametrize(("text", "expected"), [
    ("z == 0 ? 0 : 1 / z", 0),
    ("z != 0 && 1 / z > 0", False),
    ("z == 0 || 1 / z > 0", True),
    ("z != 0 => 1 / z > 0", True),
    ("z == 0 ? 0 : a[7]", 0),
    ("[1,0] == 0 ? 9 : 4 / [1,0]", (4, 9)),
    ("[1,0] != 0 && 4 / [1,0] > 2", (True, False)),
    ("null ?? 1", 1),
    ("n ?? 1 / z", 3),
])  # fmt: skip
def test_undefined_matters_only_where_it_is_needed(
    value: Callable[..., Any], text: str, expected: Any
) -> None:
    assert value(text, NAMES) == expected


def test_generic_type_casts_and_has_a_default(value: Callable[..., Any]) -> None:
    assert value("T(1)", {}, {"T": "real"}) == 1.0
    assert type(value("T(1)", {}, {"T": "real"})) is float
    assert value("T()", {}, {"T": "bool"}) is False


@pytest.mark.parametrize(("text", "expected"), [("int(inf)", math.inf), ("int(-inf)", -math.inf)])
def test_infinite_integer_is_left_to_the_machine(
    value: Callable[..., Any], text: str, expected: float
) -> None:
    assert value(text) == formula.Constant("int", expected)


@given(st.integers(-50, 50), st.integers(-9, 9).filter(bool))
def test_integer_division_laws(left: int, right: int) -> None:
    names = Environment({"x": left, "y": right}, {})
    down, up, rest = (known(parse_expression(f"x {o} y"), names) for o in ("/", "\\", "%"))
    assert down == math.floor(left / right)
    assert up == math.ceil(left / right)
    assert rest == left - right * math.floor(left / right)


@given(st.lists(st.integers(-5, 5), max_size=6), st.data())
def test_slices_are_those_of_python(items: list[int], data: st.DataObject) -> None:
    ends = st.none() | st.integers(-8, 8)
    begin, end = data.draw(ends), data.draw(ends)
    step = data.draw(st.none() | st.integers(-3, 3).filter(bool))
    parts = ["" if part is None else str(part) for part in (begin, end, step)]
    names = Environment({"a": tuple(items)}, {})
    assert known(parse_expression(f"a[{':'.join(parts)}]"), names) == tuple(items[begin:end:step])


@pytest.mark.slow
def test_long_packs_are_compared_in_linear_time(value: Callable[..., Any]) -> None:
    assert value("[0:200000] != ..") is True
    assert value("([0:200000] in [0:100000]) && ..") is False


def test_an_item_of_a_pack_is_found_without_a_search() -> None:
    class Pack(tuple[Tensor, ...]):
        def __iter__(self) -> Any:
            raise AssertionError("every item is looked at")

    tensors = tuple(Tensor(f"x{i}", "real", (4,), "input") for i in range(3))
    found = known(parse_expression("xs[1]"), Environment({"xs": Pack(tensors)}, {}))
    assert found is tensors[1]
