"""Declaring blocks: attributes, inputs, outputs, constants, variables, asserts (2.5 to 2.8)."""

from __future__ import annotations

import pytest

VALID = [
    "operator op { @attrib { a: int = 42; b: int..(k) = []; c: int.. = [0:a]; } %s",
    "operator op { @attrib { r: optional int; a: int..(k) = [0:r]; } %s",
    "operator op { @attrib { r: int; a: int..(r) = 0; b: bool = !false; } %s",
    "operator op { @attrib { a: int..(d); b: real..(d) = 0.5; } %s",
    "operator op { @attrib { p: int..(2 * d) = 1; } @input { x: real[s..(d)]; } %s",
    "operator op { @attrib { p: int..(d) = x.shape; q: int = x.rank; } @input { x: real[s..(d)]; } "
    "%s",
    "operator op { @dtype { T: num = real; } @attrib { v: T = T(); } %s",
    "operator op { @input { x: optional real[n]; y: real[n + 1, n / 2 + 1]; z: real[] = 1.0; } %s",
    "operator op { @input { x: real[b, c..(f)]; } @attrib { f: bool = true; } "
    "@output { o: real[c]; } }",
    "operator op { @attrib { k: int; } @output { o: real[~|k, s|k]; p: real[s|k]; } }",
    "operator op { @attrib { k: int; } @output { o: real[1 ..(k), k ..(2), k > 1 ? k]; } }",
    "operator op { @attrib { z: int..(k); } @output { o: real[1, ..z]..(k); } }",
    "operator op { @attrib { n: int; } @constant { c: real[n, n] = i == j ? 1.0 : 0.0, "
    "i < n, j < n; d: real[2, 2] = [1.0, 2.0, 3.0, 4.0]; e: real[n]..(2) = [0.0, 1.0]; } %s",
    "operator op { @attrib { n: int; } @variable { w: real[n, 2]; ws: real[n]..(n); } %s",
    "operator op { @attrib { n: int; } @assert { n > 0; n != 3: 'n is {n}', n, 'twice': 2 * n; "
    "[n, 1] > 0: 'all'; } %s",
    "graph G2 { @input { x: real[~|10, s|20, ~|3 ..(2)]; z: real; } @output { y: real[~, ~]; "
    "w: real; } @compose { y = x; w = z; } }",
    "operator later { %s operator op { @compose { o = later(); } %s",
]

INVALID = [
    ("operator op { @attrib { a: «int[2]»; } %s", "attribute 'a' has a shape", "@input"),
    ("operator op { @attrib { a: optional int = «1»; } %s", "has a default value", "optional"),
    ("operator op { @attrib { a: int = «1.5»; } %s", "of type real, but 'a' is int", "int(1.5)"),
    ("operator op { @attrib { a: real = «1»; } %s", "of type int, but 'a' is real", "1.0"),
    ("operator op { @attrib { a: int = «[1]»; } %s", "is a pack, but 'a' is a single", "a: int.."),
    ("operator op { @attrib { a: int..(2) = «[1]»; } %s", "has 1 items, but 'a' has 2", None),
    ("operator op { @attrib { a: «integer»; } %s", "unknown type 'integer'", "int"),
    ("operator op { @attrib { a: «num»; } %s", "'num' is not a concrete type", "T: num;"),
    ("operator op { @attrib { a: int; «a»: real; } %s", "'a' is already declared", "rename"),
    ("operator op { @attrib { a: int; } @input { «a»: real[]; } %s", "already declared", None),
    ("operator op { @attrib { a: int = «b» + 1; } %s", "'b' is not defined", None),
    ("operator op { @attrib { a: int = «h»; } @using { h = 1; } %s", "'h' is not", "@using"),
    ("operator op { @attrib { a: int = «a» + 1; } %s", "computed later", "own attribute"),
    ("operator op { @attrib { r: int; a: int = «b»; b: int = r; } %s", "computed later", "'b'"),
    ("operator op { @attrib { a: int..(k); b: int = «k»; } %s", "only the length of", "an input"),
    ("operator op { @variable { w: «real[2]..»; } %s", "the pack 'w' has no length", "..(n)"),
    ("operator op { @attrib { «a»: int..(k) = 0; } %s", "length is not known", "as a list"),
    ("operator op { @attrib { «a»: int.. = 0; } %s", "length is not known", None),
    ("operator op { @attrib { f: bool; a: int..(«f»); } %s", "must be of type int, not bool", None),
    ("operator op { @dtype { T: «int»; } %s", "restricts nothing", "'num'"),
    ("operator op { @dtype { T: num = «bool»; } %s", "not allowed by 'num'", "int, real"),
    ("operator op { @dtype { T: num; «T»: type; } %s", "declared twice", None),
    ("operator op { @input { x: «str»[n]; } %s", "no tensors of strings", None),
    ("operator op { @input { x: real[s..]; y: real[«s»]; } %s", "is a pack", "s.."),
    ("operator op { @input { x: real[n]; } @output { y: real[«n..»]; } }", "needs a", "..(n)"),
    ("operator op { @input { x: real[n]; y: real[«1.5»]; } %s", "a dimension must be of", None),
    ("operator op { @input { x: real[n]; y: real[«x»]; } %s", "'x' is a tensor", "x.shape"),
    ("operator op { @input { x: real[«..z»]; } %s", "needs a pack of tensors", "'..'"),
    ("operator op { @input { x: real[n]; } @output { y: real[«m»]; } }", "'m' is not", None),
    ("operator op { @output { y: real[1] = «2.0»; } }", "has a default value", None),
    ("operator op { @output { y: real[«~»]; } }", "needs an upper bound", "~|n"),
    ("operator op { @output { y: «real»; } @lower { y[] = 1.0; } }", "'y' has no shape", "real[]"),
    ("operator «op» { @attrib { a: int; } }", "has no '@output' block", None),
    ("operator op { @constant { «c»: real[2]; } %s", "constant 'c' has no value", "= value"),
    ("operator op { @constant { c: real[2] = «1»; } %s", "is real, but its value is int", "1.0"),
    ("operator op { @constant { c: real[«n»] = 1.0; } %s", "'n' is not defined", None),
    ("operator op { @constant { c: real[2, 2] = 1.0, «i < 2»; } %s", "2 dimensions and 1", None),
    ("operator op { @constant { c: «real[2]..» = 1.0; } %s", "has no length", "..(n)"),
    ("operator op { @input { x: real[n]; } @constant { c: real[n] = «x[i,]», i < n; } %s",
     "cannot be read here", "@lower"),
    ("operator op { @variable { w: real[2] = «0.0»; } %s", "variable 'w' has a value", "files"),
    ("operator op { @attrib { n: int; } @assert { «n»: 'message'; } %s", "must be of type", "!"),
    ("operator op { @attrib { n: int; } @assert { n > 0: 'got {«m»}'; } %s", "'m' is not", None),
    ("operator op { @attrib { n: int; } @assert { n > 0: 'got', «m»; } %s", "'m' is not", None),
    ("operator op { %s operator «op» { %s", "'op' is defined twice", "rename"),
    ("operator op { «@lower { o[] = 1.0; }» @compose { o = 1.0; } @output { o: real[]; } }",
     "both lowered and composed", "keep either"),
    ("graph «G2» { @output { o: real[]; } }", "has no '@compose' block", None),
    ("graph G2 { «@lower { o[] = 1.0; }» @output { o: real[]; } }", "has a '@lower' block", None),
]  # fmt: skip

OUTPUT = "@output { o: real[1]; } }"


@pytest.mark.parametrize("text", VALID)
def test_valid_declarations_have_no_diagnostics(text: str, expect_clean) -> None:
    expect_clean(text.replace("%s", OUTPUT))


@pytest.mark.parametrize(("text", "message", "hint"), INVALID)
def test_invalid_declarations_are_reported_at_their_location(
    text: str, message: str, hint: str | None, expect_error
) -> None:
    expect_error(text.replace("%s", OUTPUT), message, hint=hint)


def test_a_second_block_is_reported_with_the_first(check) -> None:
    text = """graph G { @output { o: real[]; } @compose { o = 1.0; } }
operator op {
    @attrib { a: int; }
    @output { o: real[1]; }
    @attrib { b: int; }
}"""
    _, found = check(text)
    assert [(d.message, d.line) for d in found] == [("a second '@attrib' block", 5)]
    assert found[0].notes[0].span.text == "@attrib { a: int; }"


def test_complementary_flags_make_a_dimension_certain(expect_clean, expect_error) -> None:
    text = """operator op {
    @attrib { f: bool; }
    @input { x: real[c..(f), s.., c..(FLAG)]; }
    @output { y: int[]; }
    @lower { y[] = c; }
}"""
    expect_clean(text.replace("FLAG", "!f"))
    maybe = text.replace("c..(FLAG)", "d..(!f)").replace("y[] = c", "y[] = «c»")
    expect_error(maybe, "the value may be null")


def test_dimensions_of_optional_inputs_may_be_null_unless_others_bind_them(
    expect_clean, expect_error
) -> None:
    text = """operator op {
    @input { x: optional real[n]; MORE }
    @output { y: int[]; }
    @lower { y[] = VALUE; }
}"""
    expect_error(text.replace("MORE", "").replace("VALUE", "«n»"), "the value may be null")
    expect_clean(text.replace("MORE", "z: real[n];").replace("VALUE", "n"))
