"""Formulas of ``@lower`` (2.12): the examples of the draft are clean, mistakes are found."""

from __future__ import annotations

import pytest

OPERATOR = """
operator op {{
    @dtype {{ T: num; }}
    @attrib {{ w: int; ip: int..; f: bool; r: real; }}
    @input {{
        x: real[n]; m: real[a, b]; o: optional real[n]; v: T[s..(d)]; e: real[];
        xs: real[n]..(k); k2: int[n];
    }}
    @output {{ {outputs} }}
    @lower {{ {formulas} }}
}}
"""

VALID = [
    ("y: real[n];", "y[i,] = x[i,], i < n;"),
    ("y: real[a, b];", "y[i, j] += m[i, l] * m[l, j], i < a, l < b, j < b;"),
    ("y: real[a, b];", "y[i, j] = 0.0, i < a, j < b; y[i, j] += m[i, j], i < a, j < b;"),
    ("y: real[n];", "y[i,] = o[i,] ?? 0.0, i < n;"),
    ("y: real[n];", "y[i,] = ?o ? o[i,] : x[i,], i < n;"),
    ("y: real[n];", "y[i,] += x[|i + j - w/2|,] / real(w), i < n, j < w;"),
    ("y: real[n + 2 * w];", "y[i,] = x[|i - w <> 0 : n - 1|,], i < n + 2 * w;"),
    ("y: T[s..];", "z = v[i..] * v[i..], y[i..] = z + z * T(2), i < s;"),
    ("y: T[s..];", "g = |i - 1|, y[i..] += v[g..], i < s;"),
    ("y: T[s..];", "p = f ? [i.., |j|] : [|j|, i..], y[i..] = v[p[:d]..], i < s, j < w;"),
    ("y: T[s..];", "y[i..] = v[i[ip] <- |i[ip] - 1|..], i < s;"),
    ("y: int[];", "y[] = 0; y[] := i, i < n | x[i,] > x[y[],];"),
    ("y: int[]..(2);", "y[] = 0; y[] := [i, j], i < a, j < b | m[i, j] > m[y[]..];"),
    ("ys: real[n]..(k);", "ys[q][i,] = xs[q][i,] + x[i,], q < k, i < n;"),
    ("ys: real[n]..(k);", "ys[i,] = xs[i,] + x[i,], i < n;"),
    ("ys: real[n]..(k);", "unroll..(q -> k) ys[q][i,] = xs[q][i,], i < n;"),
    ("ys: real[n]..(2);", "ys[0][i,] = x[i,], i < n; ys[1][i,] = -x[i,], i < n;"),
    ("y: real[n];", "y[i,] = xs[i,] + .., i < n;"),
    ("y: real[n];", "y[i,] = x[k2[i,],], i < n;"),
    ("y: real[n];", "y[i,] = x[ip[i],], i < n;"),
    ("y: bool[n];", "y[i,] &= x[j,] > 0.0 && f, i < n, j < w;"),
    ("y: bool[n];", "y[i,] |= x[i,] > e[], i < n;"),
    ("y: real[n];", "y[i,] >= x[j,], i < n, j < i + 1;"),
    ("y: real[n];", "y[i,] = x[i,], i < n | x[i,] > 0.0;"),
    ("y: real[];", "y[] = `sqrt`(e[]) + r;"),
    ("y: T[s..];", "y[i..] = T(), i < s | (i < 3) && ..;"),
    ("y: real[n, k3|n];", "y[i, j] = x[i,], i < n, j < k3;"),
    ("y: real[n];", "y[i,] += 1.0, i < n, j < w;"),
]

INVALID = [
    ("y: real[n];", "y[i,] = x[«j»,], i < n;", "'j' is not defined", None),
    ("y: real[n];", "«y[i]» = x[i,], i < n;", "as if it was a pack", "y[i,]"),
    ("y: real[n];", "y[i,] = «x[i]», i < n;", "as if it was a pack", "x[i,]"),
    ("y: real[n];", "y[i,] = «x», i < n;", "'x' is a tensor", "x[i,]"),
    ("y: real[n];", "y[i,] = «m[i,]», i < n;", "'m' is of rank 2, but has 1 index", "[a, b]"),
    ("y: real[n];", "y[i,] = «m[i, i, i]», i < n;", "rank 2, but has 3 indices", None),
    ("y: real[n];", "y[i,] = «e[i,]», i < n;", "rank 0, but has 1 index", None),
    ("y: real[n, s..];", "«y[]» = 0.0;", "at least of rank 1, but has 0 indices", None),
    ("y: T[s..];", "«y[i,]» = v[i..], i < s;", "several elements", ".."),
    ("y: T[s..];", "y[i..] = «v[i,]», i < s;", "a pack of values", "fold"),
    ("y: real[n];", "y[i,] = x[«1.0»,], i < n;", "an index must be of type int", None),
    ("y: real[n];", "y[i,] = «k2[i,]», i < n;", "output is real, but the", "real(k2[i,])"),
    ("y: real[n];", "y[i,] = «0», i < n;", "but the value is int", "0.0"),
    ("y: T[s..];", "y[i..] = «1.0», i < s;", "output is T (num), but the value is real", "T(1.0)"),
    ("y: real[n];", "y[i,] = «o[i,]», i < n;", "the value may be null", "??"),
    ("y: real[n];", "y[i,] = x[i,], i < «r»;", "bound of an index symbol must be", None),
    ("y: real[n];", "y[i,] = x[i,], i < n, «w» < n;", "'w' is already declared", None),
    ("y: real[n];", "y[i,] += x[i,], i < n, «i» < n;", "'i' is already declared", None),
    ("y: real[n];", "«x» = 1.0, y[i,] = x[i,], i < n;", "'x' is already declared", None),
    ("y: real[n];", "y[i,] += x[«|i|» + 1,], i < n;", "cannot be part of", "complete"),
    ("y: real[n];", "g = |i|, y[i,] += x[«g» + 1,], i < n;", "cannot be part of", "complete"),
    ("y: real[n];", "g = |i|, y[i,] += real(«g»), i < n;", "cannot be part of", None),
    ("y: real[n];", "y[i,] = x[i,], i < n | «x[i,]»;", "condition of a formula must be", "!= 0"),
    ("y: bool[n];", "«y[i,]» += f, i < n;", "'+=' does not work on bool", "int and real"),
    ("y: real[n];", "«y[i,]» &= true, i < n;", "'&=' does not work on real", None),
    ("y: real[n];", "y[i,] = 0.0, i < n; «y[i,]» = 1.0, i < n;",
     "'y' is initialized twice", "at most one '='"),
    ("y: real[n];", "y[i,] += 0.0, i < n; «y[i,]» *= 1.0, i < n;", "updated twice", None),
    ("y: real[n];", "y[i,] += 0.0, i < n; «y[i,]» = 1.0, i < n;", "after it was updated", None),
    ("y: real[n];", "«y[i,]» := 0.0, i < n;", "not initialized", "'='"),
    ("y: real[n]; «z»: real[n];", "y[i,] = x[i,], i < n;", "output 'z' is not computed", None),
    ("ys: «real[n]..»;", "ys[i,] = x[i,], i < n;", "the pack 'ys' has no length", "..(n)"),
    ("y: real[n];", "«x»[i,] = 1.0, i < n;", "input 'x' is written", "output"),
    ("y: real[n];", "«q»[i,] = 1.0, i < n;", "'q' is not an output", "@output { q: real[n]; }"),
    ("ys: real[n]..(k);", "«ys[q]» = 0.0, q < k;", "is a whole tensor", None),
    ("y: real[n];", "y[i,] = «math.exp(x)», i < n;", "invoked inside an expression", "@compose"),
    ("y: real[n];", "y[i,] = x[i,], i < n, «j» < w;", "index symbol 'j' is not used", "remove"),
]  # fmt: skip


@pytest.mark.parametrize(("outputs", "formulas"), VALID)
def test_valid_formulas_have_no_diagnostics(outputs: str, formulas: str, expect_clean) -> None:
    expect_clean(OPERATOR.format(outputs=outputs, formulas=formulas))


@pytest.mark.parametrize(("outputs", "formulas", "message", "hint"), INVALID)
def test_invalid_formulas_are_reported_at_their_location(
    outputs: str, formulas: str, message: str, hint: str | None, expect_error
) -> None:
    expect_error(OPERATOR.format(outputs=outputs, formulas=formulas), message, hint=hint)


@pytest.mark.parametrize("formulas", ["y[i,] = x[i,], i < n, j < w;", "y[i,] = x[i], i < n;"])
def test_what_is_odd_but_clear_is_a_warning_and_leaves_the_program_valid(
    formulas: str, check
) -> None:
    program, found = check(
        "graph G { @input { x: real[1]; } @output { y: real[1]; } @compose { y = x; } }"
        + OPERATOR.format(outputs="y: real[n];", formulas=formulas)
    )
    assert program is not None
    assert [diagnostic.severity for diagnostic in found] == ["warning"]
