"""The binding order of input shapes (2.6.1), and the definitions that have none."""

from __future__ import annotations

import pytest

ORDERS = [
    # The example of the draft: y determines d, the length of z, and then x has one open pack.
    (
        "r: int; a: optional int; b: int..(d) = 0; c: int = 2 * d + r;",
        "x: real[s..(r), z..(d), t..]; y: real[s..(r), z..(d)];",
        ["y", "x"],
        {"c"},
    ),
    ("", "x: real[s..(d), t..]; y: real[s..(d)];", ["y", "x"], set()),
    ("r: int;", "x: real[s.., t..(r)];", ["x"], set()),
    ("r: int = 2;", "x: real[s..(r), t..];", ["x"], set()),
    ("axis: int;", "x: real^(rank)[s..(axis < 0 ? axis + rank : axis), c, t..];", ["x"], set()),
    ("", "x: real[s.., t..]; y: real[t..]; z: real[t.., u..]; w: real[u.., 1];",
     ["y", "z", "w", "x"], set()),
    ("", "a: optional real[s..]; b: real[s.., t..]; c: real[t..];", ["c", "b", "a"], set()),
    ("", "a: optional real[n]; b: optional real[m]; c: real[n];", ["c", "a", "b"], set()),
    ("", "a: real[m, k + 1, s..(2 * d), m / 2];", ["a"], set()),
    ("f: bool = true;", "x: real[b, c..(f), s.., c..(!f)];", ["x"], set()),
    ("f: str = 'NCX';", "x: real[b, c..(f == 'NCX'), s.., c..(f != 'NCX')];", ["x"], set()),
    ("", "xs: real[z, s..(l), ..t]..(k); y: real[k, l];", ["xs", "y"], set()),
    ("p: int..(2 * d);", "x: real[s..(d)];", ["x"], set()),
    ("", "data: real[s..(d), t..]; index: int[z.., d];", ["index", "data"], set()),
]  # fmt: skip


@pytest.mark.parametrize(("attributes", "inputs", "order", "deferred"), ORDERS)
def test_binding_order(
    attributes: str, inputs: str, order: list[str], deferred: set[str], expect_clean
) -> None:
    text = f"""operator op {{
        @attrib {{ {attributes} }} @input {{ {inputs} }} @output {{ o: real[1]; }} }}"""
    definition = expect_clean(text).modules["main"].definitions["op"]
    names = [definition.inputs[index].name.name for index in definition.binding_order]
    assert names == order
    assert definition.deferred == deferred


INVALID = [
    ("", "«x»: real[s.., t..];", "'s..' and 't..' are both of open length"),
    # Neither packed nor optional nor deferred attributes help.
    ("a: int..(d) = 0;", "«x»: real[s..(d), t..];", "both of open length"),
    ("r: optional int;", "«x»: real[s..(r), t..];", "both of open length"),
    ("q: int; r: int = q + 1;", "«x»: real[s..(r), t..];", "both of open length"),
    ("", "«x»: real[s.., t.., u..];", "'s..' and 't..' and 'u..' are of open length"),
    ("", "«x»: real[s.., t..]; y: optional real[s..];", "both of open length"),
    ("", "x: optional real[s..]; «y»: optional real[s2.., t..];", "both of open length"),
    ("", "x: real[«n» / 2];", "'n' cannot be derived from 'n / 2'"),
    ("", "x: real[«n» * m, n];", "'n' cannot be derived from 'n * m'"),
    ("", "x: real[s..(«n» * m)];", "'n' cannot be derived from 'n * m'"),
    ("", "x: real[n, n * «m»];", "'m' cannot be derived"),
    ("", "xs: real[n]..(«k» / 2);", "'k' cannot be derived"),
]


@pytest.mark.parametrize(("attributes", "inputs", "message"), INVALID)
def test_definitions_without_a_binding_order_are_invalid(
    attributes: str, inputs: str, message: str, expect_error
) -> None:
    text = f"""operator op {{
        @attrib {{ {attributes} }} @input {{ {inputs} }} @output {{ o: real[1]; }} }}"""
    expect_error(text, message)
