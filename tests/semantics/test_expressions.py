"""Types of expressions: what sections 2.4 and 2.4.1 allow, and what they do not."""

from __future__ import annotations

import pytest

GRAPH = "graph G { @input { x: real[1]; } @output { y: real[1]; } @compose { y = x; } }"

OPERATOR = """
operator op {{
    @dtype {{ T: num; S: type; }}
    @attrib {{
        i: int; r: real; b: bool; s: str; t: T; u: S;
        oi: optional int; oreal: optional real;
        ip: int..(n); rp: real..(n); bp: bool..(n); sp: str..; oip: optional int..;
        two: int..(2);
    }}
    @input {{ x: real[z..(d), c]; xs: T[m]..(k); o: optional real[e]; w: S[c]; }}
    @output {{ y: real[c]; }}
    @using {{ {using} }}
}}
"""

VALID = [
    "v = i + 1 * n - d / 2 \\ 3 % 4;",
    "v = r ** 2.0 + pi - inf;",
    "v = -i + +i;",
    "v = !b && i < n => r >= 1.0;",
    "v = b ^ !b || false;",
    "v = s == 'a' || s < 'b';",
    "v = 'a' + s; w2 = v + s;",
    "v = t + T(1); w2 = T(i) * T();",
    "v = u == S();",
    "v = ip + 1 < ip => true;",
    "v = i << n >> 3;",
    "v = i in [1, 2, 3]; w2 = ip in [1]; w3 = s in ['a', 'b'];",
    "v = ip is 1; w2 = x is o; w3 = x.shape is z;",
    "v = [1, i, 2:n, ip.., (ip, z).., 0 ..(n), 5 ..(b)];",
    "v = []; w2 = [v.., 1];",
    "v = two[0] + two[-1];",
    "v = ip[i] + ip[-1]; w2 = ip[1:-1]; w3 = ip[::-1]; w4 = ip[[0, 1]]; w5 = ip[bp];",
    "v = s[0] + s[1:]; w2 = sp[0];",
    "v = ip[0] <- 1; w2 = ip[[0]] <- [1]; w3 = [0 ..(d)][two] <- two;",
    "v = b ? i : n; w2 = bp ? ip : 0; w3 = b ? 1; w4 = w3 ?? 2;",
    "v = oi ?? 1; w2 = oip ?? ip; w3 = oi ?? b ? 1 : 2;",
    "v = oi + 1 ?? 0; w2 = [oi, 1] ?? [0, 1]; w3 = (oi < 3) ?? true;",
    "v = ?oi ? oi : 0; w2 = ?oi && oi > 0 ? oi : 1; w3 = !?oi ? 0 : oi;",
    "v = ip + ..; w2 = ip * ..; w3 = bp && ..; w4 = bp || ..;",
    "v = ip < ..; w2 = ip <= ..; w3 = ip > ..; w4 = ip >= ..; w5 = sp == ..; w6 = sp != ..;",
    "v = ip << .. ?? 0; w2 = rp >> .. ?? 0.0; w3 = sp := .. ?? 'a';",
    "v = ip + ...; w2 = ip >> ...; w3 = bp || ...;",
    "v = real(i) + real(b); w2 = int(r) + int(inf); w3 = bool(i); w4 = real(r); w5 = str(s);",
    "v = int(ip) + int(rp); w2 = real();",
    "v = `sqrt`(r) + `abs`(r); w2 = `abs`(i) + `sign`(i); w3 = `exp`(rp); w4 = `abs`(t);",
    'v = "{i} and {rp} and {x.shape}";',
    "v = x.rank + x.shape[0] + xs.size; w2 = (o.rank ?? 0) + (o.shape + .. ?? 0);",
    "[v, w2..] = ip; [(v1, v2)..] = ip; [h.., q..(2)] = ip; l..(n) = ip;",
    "v = e ?? 0;",
]

INVALID = [
    ("v = «nothing» + 1;", "'nothing' is not defined", None),
    ("v = «later» + 1; later = 1;", "'later' is not defined", "@using"),
    ("v = «y».shape;", "'y' is not defined", "@output"),
    ("v = «pading»;", "'pading' is not defined", None),
    ("v = «i + r»;", "different types: int and real", "real(i)"),
    ("v = «1 + r»;", "different types: int and real", "write '1.0'"),
    ("v = «t + 1»;", "different types: T (num) and int", "T(1)"),
    ("v = «b» + 1;", "'+' must be of type int or real or str, not bool", "write 'int(b)'"),
    ("v = 1 - «s»;", "'-' must be of type int or real, not str", "such as 1 or 1.0"),
    ("v = «u» + 1;", "left operand of '+'", "'S: num;'"),
    ("v = -«b»;", "operand of '-' must be", None),
    ("v = !«i»;", "operand of '!' must be of type bool, not int", "!= 0"),
    ("v = «i» && b;", "left operand of '&&' must be of type bool", None),
    ("v = i << «b»;", "right operand of '<<'", None),
    ("v = «two + [1, 2, 3]»;", "packs of different lengths: 2 and 3", "equally long"),
    ("v = 1 in «i»;", "must be a pack", "[i]"),
    ("v = «s in [1]»;", "different types: str and int", "{n}"),
    ("v = [1, «2.0»];", "items of a list must be of one type", "real(n)"),
    ("v = [«ip», 1];", "packs cannot be nested", "ip.."),
    ("v = [«i..»];", "needs a count", "i ..(n)"),
    ("v = [i..(«r»)];", "a pack length must be of type int or bool", "int(r)"),
    ("v = [0:«r»];", "the end of a range must be of type int", None),
    ("v = [(ip, «i»)..];", "not a pack and cannot be interleaved", "[i]"),
    ("v = [(ip, «rp»)..];", "interleaved must be of one type", "real"),
    ("v = ip[«r»];", "an index must be of type int or bool", None),
    ("v = ip[«b»];", "a mask must be a pack", None),
    ("v = «ip[1, 2]»;", "takes one index", None),
    ("v = «i[0]»;", "single value and has no items", "'..'"),
    ("v = two[«2»];", "2 items and none at index 2", "from 0 to 1, or from -2 to -1"),
    ("v = [1, 2][«-3»];", "2 items and none at index -3", None),
    ("v = «x[0, 0]»;", "elements of the tensor 'x' cannot be read here", "@lower"),
    ("v = ip[0] <- «ip»;", "a pack cannot replace a single item", None),
    ("v = ip[two] <- «r»;", "a value of type real replaces items of type int", "int(r)"),
    ("v = «i» ? 1 : 2;", "the condition of '?:' must be of type bool, not int", None),
    ("v = «b ? 1 : 2.0»;", "two sides of ':' are of different types", "1.0"),
    ("v = «i» ?? 1;", "'i' is never null", "??"),
    ("v = «oi ?? 1.0»;", "two sides of '??' are of different types", "int(1.0)"),
    ("v = «i» + ..;", "folds a pack, but 'i' is none", "write 'i' alone"),
    ("v = «bp» + ..;", "the operand of '+ ..' must be of type int or real", None),
    ("v = «ip» && ..;", "the operand of '&& ..' must be of type bool", None),
    ("v = int(«s»);", "no cast from str to int", None),
    ("v = str(«i»);", "no cast from int to str", "{x}"),
    ("v = `sqrt`(«i»);", "the operand of 'sqrt' must be of type real, not int", "real(i)"),
    ("v = `sqrt`(«2»);", "the operand of 'sqrt'", "2.0"),
    ("v = `«sqr»`(r);", "unknown function 'sqr'", "sqrt"),
    ("v = «sqrt(r)»;", "invoked inside an expression", "`sqrt`"),
    ("v = «x» + 1.0;", "'x' is a tensor and has no value here", "x.shape"),
    ("v = «x.size»;", "'x' is a single tensor and has no '.size'", "x.rank"),
    ("v = «xs.shape»;", "'xs' is a pack of tensors and has no '.shape'", "xs.size"),
    ("v = «x.length»;", "has no '.length'", "x.shape"),
    ("v = «ip.size»;", "'ip' is not a tensor", "(n)"),
    ("v = «|i|»;", "between bars is only allowed in '@lower'", "write 'i'"),
    ('v = "{«x»}";', "'x' is a tensor", None),
    ("«[a, b2]» = i;", "only a pack can be split", None),
    ("[v.., «w2..»] = ip;", "several parts of open length", "..(n)"),
    ("«i» = 1;", "'i' is already declared as an attribute", "unique"),
    ("«n» = 1;", "'n' is already declared as a dimension", None),
    ("«T» = 1;", "already the name of a generic type", None),
]  # fmt: skip


@pytest.mark.parametrize("using", VALID)
def test_valid_expressions_have_no_diagnostics(using: str, expect_clean) -> None:
    expect_clean(OPERATOR.format(using=using))


@pytest.mark.parametrize(("using", "message", "hint"), INVALID)
def test_invalid_expressions_are_reported_at_their_location(
    using: str, message: str, hint: str | None, expect_error
) -> None:
    expect_error(OPERATOR.format(using=using), message, hint=hint)


def test_null_propagates_until_it_is_resolved(expect_error) -> None:
    text = """
operator op {
    @attrib { o: optional int; }
    @input { x: real[n]; }
    @output { y: int[n]; }
    @using { a = -(o + 1) * 2; b = [a, 1] + ..; c = b > 0 ? 1 : 2; d = c ?? 0; }
    @lower { y[i,] = «d + c», i < n; }
}"""
    # `d` is resolved, `c` is not: the sum may be null, and only that is reported.
    expect_error(text, "the value may be null")


def test_a_mistake_hides_what_follows_from_it(check) -> None:
    text = OPERATOR.format(using="a = nothing + 1; b2 = a + 1.0; c2 = b2[0] ? a : 'x';")
    _, found = check(text + GRAPH)
    assert [diagnostic.message for diagnostic in found] == ["'nothing' is not defined"]
