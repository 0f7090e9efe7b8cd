"""``@compose``, ``@update`` and ``@quantize`` (2.10, 2.10.1, 2.11, 2.13, 2.14)."""

from __future__ import annotations

import pytest

OPERATORS = """
operator add { @dtype { T: num; } @input { a: T[s..]; b: T[s..]; } @output { c: T[s..]; }
    @lower { c[i..] = a[i..] + b[i..], i < s; } }
operator neg { @input { a: real[s..]; } @output { b: real[s..]; }
    @lower { b[i..] = -a[i..], i < s; } }
operator cond { @input { a: real[s..]; } @output { c: bool[]; }
    @lower { c[] &= a[i..] > 0.0, i < s; } }
operator split { @attrib { n: int; } @input { a: real[s..]; } @output { b: real[s..]..(n); }
    @lower { b[i..] = a[i..], i < s; } }
operator sum { @input { a: real[s..]..(n); } @output { b: real[s..]; }
    @lower { b[i..] += a[k][i..], k < n, i < s; } }
operator two { @input { a: real[s..]; z: optional real[s..]; } @output { b: real[s..]; c: int[]; }
    @lower { b[i..] = a[i..] + (z[i..] ?? 0.0), i < s; c[] = 1; } }
operator attributes { @attrib { i: int; r: real = 0.5; o: optional int; p: int..(2) = 1;
        s: str = 'a'; }
    @input { a: real[s2..]; } @output { b: real[s2..]; } @lower { b[j..] = a[j..], j < s2; } }
operator make { @dtype { T: num; D: type = real; } @attrib { n: int; } @output { y: T[n]; z: D[]; }
    @lower { y[i,] = T(), i < n; z[] = D(); } }
operator maybe { @input { a: real[s..]; } @output { b: optional real[s..]; }
    @lower { b[i..] = a[i..], i < s; } }
operator step { @input { i: int[]; a: real[s..]; } @output { b: real[s..]; }
    @lower { b[j..] = a[j..] * real(i[]), j < s; } }
graph Sub { @input { a: real[2]; } @output { b: real[2]; } @compose { b = neg(a); } }
"""

GRAPH = """graph Main {{
    @attrib {{ n: int = 2; flag: bool = true; r: real = 1.0; oi: optional int; }}
    @input {{ x: real[2]; xs: real[2]..(3); k: int[]; p: bool[]; q: bool[2]; }}
    @output {{ {outputs} }}
    @constant {{ c: real[2] = 0.0; }}
    @variable {{ w: real[2]; }}
    @using {{ h = n + 1; }}
    @compose {{ {compose} }}
    {more}
}}
"""

VALID = [
    "y = x;",
    "z = add(x, w); y = add(z, c);",
    "y = flag ? x : w;",
    "y = neg(flag ? x : w);",
    "y = if flag then x else neg(x);",
    "y = lab: neg(x);",
    "a..(n) = split{n=n}(x); y = sum(a);",
    "[a, b..(1)] = split{n=2}(x); y = add(a, b[0]);",
    "[a, b] = xs[:2]; y = add(a, b);",
    "y = sum([x, xs.., w]);",
    "y = sum(xs[1:]);",
    "y, i = two(x); j = add(i, 1);",
    "y, ~ = two(x, ~);",
    "y = attributes{i=1}(x);",
    "y = attributes{i=h, r=r * 2.0, o=oi, p=[1, x.rank], s='b'}(x);",
    "y = attributes{i=x.shape[0], p=2,}(x);",
    "m, d = make<real>{n=2}(); y = add(m, m);",
    "m, ~ = make<int, bool>{n=2}(); e = add(m, m); y = x;",
    "y = add(x, 1.0);",
    "y = if cond(x) then { a = neg(x); yield a; } else { x = neg(x); yield x; };",
    "y = if p then x elif q then w elif flag && n > 1 then c else neg(x);",
    "y = { y = neg(x); yield y; };",
    "y = if flag then Sub(x) else L: Sub(w);",
    "m = maybe(x); y = m ?? x;",
    "m = maybe(x); y = if ?m then neg(m) else x;",
    "m = maybe(x); y = if ?m && flag then add(m, m) else x;",
    "m = maybe(x); y = ?m ? m : x;",
    "m = maybe(x); y = if !?m then x else m;",
    "y = with s: real[2] = 0.0 for a : xs do add(s, a);",
    "y = with s: real[2] = 0.0 for a : xs unroll add(s, a);",
    "ys..(3) = for a : xs do neg(a); y = sum(ys);",
    "y = with a = x do..(i -> k) step(i, a);",
    "y = with a = x do..(k) neg(a);",
    "y = with a = x do neg(a) while cond(a);",
    "y, ~ = with a = x, go = true while go do { b = neg(a); t = cond(b); yield b, t; };",
    "y = with a = x for b : xs unroll..(i ->) { t = add(a, b); u = attributes{i=i}(t); yield u; };",
    "y = if flag then l: neg(x) else l: neg(w);",
]

INVALID = [
    ("y = «unknown»(x);", "unknown operator 'unknown'", None),
    ("y = «ned»(x);", "unknown operator 'ned'", "'neg'"),
    ("y = neg(«z»);", "'z' is not defined", None),
    ("y = neg(«a»); a = neg(x);", "'a' is not defined", "further below"),
    ("z = neg(«y»); y = x;", "'y' is not defined", "further below"),
    ("y = x; «y» = w;", "'y' is assigned twice", "its own name"),
    ("z = x; «z» = w; y = x;", "'z' is assigned twice", None),
    ("«x» = w; y = w;", "input 'x' cannot be assigned", "another name"),
    ("«w» = x; y = x;", "variable 'w' cannot be assigned", "@update"),
    ("«c» = x; y = x;", "constant 'c' cannot be assigned", None),
    ("«n» = x; y = x;", "attribute 'n' cannot be assigned", None),
    ("«h» = x; y = x;", "helper symbol 'h' cannot be assigned", None),
    ("y = «x» * 2.0;", "'x' is a tensor and has no value here", "'math'"),
    ("y = flag ? «neg(x)» : x;", "invoked inside an expression", "its own component"),
    ("y = neg(«neg(x)»);", "invoked inside an expression", None),
    ("y = neg(«k»);", "input 'a' of 'neg' must be real, not int", "cast<real>(k)"),
    ("y = add(x, «k»);", "input 'b' of 'add' must be real, not int", "cast"),
    ("y = add(x, «1»);", "must be real, not int", "1.0"),
    ("y = add(«p», x);", "must be int or real, not bool", None),
    ("y = neg(«xs»);", "is a single tensor, not a pack", "xs[0]"),
    ("y = sum(«x»);", "is a pack of tensors", "[x]"),
    ("y = neg(x, «w»);", "takes 1 input, but 2 are given", "its inputs are a"),
    ("y = «add»(x);", "'add' needs the input 'b'", "a, b"),
    ("y = add(«~», x);", "'add' needs the input 'a'", None),
    ("y, «i» = neg(x);", "2 results are assigned, but there is 1", None),
    ("y = attributes{i=1, «q»=2}(x);", "'attributes' has no attribute 'q'", "i, r, o, p, s"),
    ("y = attributes{i=1, «rr»=2.0}(x);", "no attribute 'rr'", "'r'"),
    ("y = attributes{i=1, «i»=2}(x);", "given twice", None),
    ("y = «attributes»(x);", "needs the attribute 'i'", "{i=...}"),
    ("y = attributes{i=«1.5»}(x);", "attribute 'i' of 'attributes' must be int", "int(1.5)"),
    ("y = attributes{i=1, r=«2»}(x);", "must be real, not int", "2.0"),
    ("y = attributes{i=«[1, 2]»}(x);", "is a single value, not a pack", None),
    ("y = attributes{i=1, p=«[1, 2, 3]»}(x);", "has 2 items, but 3 are given", None),
    ("y = attributes{i=«oi»}(x);", "cannot be null, but 'oi' can", "??"),
    ("y = attributes{i=«k»}(x);", "'k' is a tensor", "k.shape"),
    ("y, ~ = «make»{n=2}();", "the type 'T' of 'make' cannot be deduced", "<real>"),
    ("y, ~ = make<real, real, «int»>{n=2}();", "has 2 generic types, but 3 are given", "T, D"),
    ("y, ~ = make<«bool»>{n=2}();", "'bool' is not allowed for 'T'", "num"),
    ("y, ~ = make<«reel»>{n=2}();", "unknown type 'reel'", "real"),
    ("«a» = split{n=2}(x); y = x;", "is a pack and needs a length", "a..(n)"),
    ("«a..(2)» = neg(x); y = x;", "the result is a single tensor", "without dots"),
    ("«[a, b]» = neg(x); y = x;", "cannot be split", None),
    ("«y» = xs;", "is a single tensor, but the result is a pack", None),
    ("«y» = k;", "output 'y' is real, but the result is int", "cast<real>"),
    ("m = maybe(x); «y» = m;", "cannot be null, but the result can", "??"),
    ("m = maybe(x); y = neg(«m»);", "cannot be null, but 'm' can", "if ?x then"),
    ("y = «Sub»(x);", "graph 'Sub' is invoked like an operator", "public operator"),
    ("y = if «x» then x else w;", "a condition must be of type bool, not real", None),
    ("y = if «two(x)» then x else w;", "a condition has one result, not 2", None),
    ("y = if flag then x else «k»;", "the branches differ in type: real in the first, int", None),
    ("y = if flag then x else «two(x)»;", "this branch has 2 results, the first one has 1", None),
    ("m = maybe(x); y = { yield «m»; };", "may be null and cannot be yielded", "??"),
    ("z = { a = neg(x); yield a; }; y = neg(«a»);", "'a' is not defined", None),
    ("y = { a = neg(x); «a» = neg(x); yield a; };", "'a' is assigned twice", None),
    ("y = with a = x for b : «x» do add(a, b);", "is not a pack and cannot be scanned", None),
    ("y = with a = x do..(«r») neg(a);", "count of a loop must be of type int", None),
    ("y = with a = x unroll..(«k») neg(a);", "cannot be a tensor", "'do'"),
    ("y = «with a = x do neg(a)»;", "the loop never ends", "do..(n)"),
    ("y = with a: real[2] = «0» do..(2) neg(a);", "declared real, but", "0.0"),
    ("z = with a = k do..(2) «neg(x)»; y = x;", "'a' is int, but the body makes it real", None),
    ("y = with a = x, b = x do..(2) «neg(a)»;", "1 results for 2 carried tensors", None),
    ("z = neg(«s»); y = with s = x do..(2) neg(s);", "'s' is not defined", None),
    ("a = l: neg(x); y = «l»: neg(a);", "the label 'l' is used twice", None),
]  # fmt: skip


def _text(compose: str, outputs: str = "y: real[2];", more: str = "") -> str:
    return GRAPH.format(compose=compose, outputs=outputs, more=more) + OPERATORS


@pytest.mark.parametrize("compose", VALID)
def test_valid_components_have_no_diagnostics(compose: str, expect_clean) -> None:
    expect_clean(_text(compose), graph=False)


@pytest.mark.parametrize(("compose", "message", "hint"), INVALID)
def test_invalid_components_are_reported_at_their_location(
    compose: str, message: str, hint: str | None, expect_error
) -> None:
    expect_error(_text(compose), message, hint=hint, graph=False)


def test_every_output_is_assigned(expect_error) -> None:
    text = _text("y = x;", outputs="y: real[2]; «z»: real[2];")
    expect_error(text, "output 'z' is not assigned in '@compose'", graph=False)


UPDATES = [
    ("d = neg(w); w = add(d, t);", None, None),
    ("«y» = neg(w);", "output 'y' cannot be assigned", "@update"),
    ("«t» = neg(w);", "tensor 't' cannot be assigned", None),
    ("w = neg(w); «w» = neg(x);", "'w' is assigned twice", None),
    ("«w» = cond(x);", "variable 'w' is real, but the result is bool", None),
]


@pytest.mark.parametrize(("update", "message", "hint"), UPDATES)
def test_updates_assign_variables_once(
    update: str, message: str | None, hint: str | None, expect_error, expect_clean
) -> None:
    text = _text("t = neg(x); y = neg(t);", more=f"@update {{ {update} }}")
    if message is None:
        expect_clean(text, graph=False)
    else:
        expect_error(text, message, hint=hint, graph=False)


QUANTIZATIONS = [
    ("x: q{bits=8}; t: q{bits=4}; w: q{bits=2}; y: q{bits=1}; t.inner: q{bits=1};", None),
    ("«tt»: q{bits=8};", "there is no tensor 'tt' to quantize"),
    ("«n»: q{bits=8};", "there is no tensor 'n' to quantize"),
    ("x: «add»;", "'add' cannot quantize: it has 2 inputs and 1 outputs"),
    ("x: «qq»{bits=8};", "unknown operator 'qq'"),
    ("x: «q»;", "needs the attribute 'bits'"),
    ("x: q{bits=«1.5»};", "must be int, not real"),
]


@pytest.mark.parametrize(("quantize", "message"), QUANTIZATIONS)
def test_quantizations_name_tensors_and_fitting_operators(
    quantize: str, message: str | None, expect_error, expect_clean
) -> None:
    quantizer = """operator q { @attrib { bits: int; } @input { a: real[s..]; }
        @output { b: real[s..]; } @lower { b[i..] = a[i..], i < s; } }"""
    text = _text("t = neg(x); y = neg(t);", more=f"@quantize {{ {quantize} }}") + quantizer
    if message is None:
        expect_clean(text, graph=False)
    else:
        expect_error(text, message, graph=False)
