"""Whatever parses can be checked: mistakes of any kind are diagnostics, never other exceptions."""

from __future__ import annotations

import random
import re

import pytest

from tvm_nnef.diagnostics import NnefError
from tvm_nnef.syntax.parser import parse

TEXT = """import layout;
graph G {
    @attrib { n: int = 2; flag: bool = true; o: optional real; }
    @input { x: real[2, c|8]; xs: real[2]..(3); p: bool[]; }
    @output { y: real[2]; ys: real[~]..(n); }
    @constant { eye: real[2, 2] = i == j ? 1.0 : 0.0, i < 2, j < 2; }
    @variable { w: real[n, 2]; }
    @using { h = n + 1 ?? 2; [a, b..] = [h, 0:n, 1 ..(flag)]; }
    @assert { h > 0 && a in b: "h is {h}", h, 'all': b + ..; }
    @compose {
        t = if ?o && flag then { s = op{k=h}(xs[0], xs); yield s; } else l: layout.pad(w, ~);
        [u, v..(2)] = xs;
        y = with r: real[2] = 0.0 for e : xs while p do..(i -> n) op{k=1, f=[i]}(r, [e]);
        ys..(n) = for e : v unroll op(e, v[1:]);
    }
    @update { w = op(w, xs); }
    @quantize { t: op{k=1}; }
}
operator op {
    @dtype { T: num = real; }
    @attrib { k: int = 1; f: int..(d) = [0:k]; g: optional str; }
    @input { a: T^(r)[s..(d), m]; bs: T[..z, m]..(q); }
    @output { c: T[s[f] <- f * 2 .., k > 0 ? m]; }
    @lower {
        e = f is 1 ? |i| : |i - 1 <> 0 : s - 1|,
        c[i.., j] = a[e.., j] ?? T(0), i < s, j < m | (i < k) && ..;
        unroll..(l -> q) c[i.., j] += bs[l][0, `abs`(j)], i < s, j < m;
    }
}
"""
TOKEN = re.compile(r"[A-Za-z_]\w*|\d+(?:\.\d+)?|\.+|\s+|'[^']*'|.")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(4))
def test_texts_with_misplaced_words_never_crash(seed: int, check) -> None:
    chance = random.Random(seed)
    tokens = TOKEN.findall(TEXT)
    words = [i for i, token in enumerate(tokens) if re.match(r"\w", token)]
    checked = 0
    while checked < 15:
        changed = list(tokens)
        for _ in range(chance.randint(1, 3)):
            changed[chance.choice(words)] = tokens[chance.choice(words)]
        text = "".join(changed)
        try:
            parse(text, "main.sknd")
        except NnefError:
            continue
        checked += 1
        program, found = check(text)
        assert (program is None) == any(d.severity == "error" for d in found)
        for diagnostic in found:
            assert diagnostic.span is not None
            assert diagnostic.render()
