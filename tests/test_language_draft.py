"""Models that use the whole language in odd combinations (sections 2.2 to 3.1 of the draft).

Each model is a text, what it is given, and what comes out, worked out by hand or by NumPy; it was
written to look like what others may write, not like what is implemented. All are evaluated, some
are compiled as well.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import tvm_nnef

F = partial(np.array, dtype=np.float32)
I = partial(np.array, dtype=np.int32)  # noqa: E741
B = partial(np.array, dtype=bool)
INF = np.inf

OPERATORS = """
import math; import layout;
operator tell { @attrib { v: int..(n); } @output { y: int[n]; } @lower { y[i,] = v[i], i < n; } }
operator inc { @attrib { by: real = 1.0; } @input { x: real[t..]; } @output { y: real[t..]; }
    @lower { y[i..] = x[i..] + by, i < t; } }
operator less { @attrib { l: real; } @input { x: real[n]; } @output { y: bool[]; }
    @compose { t = math.sum_reduce{squeeze=true}(x); y = math.lt(t, l); } }
operator rev { @input { xs: real[n]..(k); } @output { ys: real[n]..(k); }
    @compose { ys = xs[::-1]; } }
operator gt { @input { x: real[n]; } @output { y: real[k|n]; }
    @lower { y[k,] = x[i,], i < n | x[i,] > 0.0; } }
operator scale { @attrib { by: real = 2.0; } @input { x: real[t..]; } @output { y: real[t..]; }
    @lower { y[i..] = x[i..] * by, i < t; } }
operator half { @input { x: real[n]; } @output { y: real[n / 2]; }
    @lower { y[i,] = x[2 * i,] + x[2 * i + 1,], i < n / 2; } }
operator dot { @input { x: real[n]; y: real[n]; } @output { z: real[]; }
    @lower { z[] += x[i,] * y[i,], i < n; } }
operator even { @input { x: real[n]; } @assert { n % 2 == 0: "n = {n} is odd"; }
    @output { y: real[n]; } @lower { y[i,] = x[n - 1 - i,], i < n; } }
"""

INPUTS = "x: real[2]; xs: real[2]..(3); n: int[]; c: bool[]; m: real[2,3];"
"""The inputs of models of control flow."""


def flow(n: int = 2, c: bool = True) -> tuple[Any, ...]:
    """Values for them."""
    packed = [F([1, 2]), F([3, 4]), F([5, 6])]
    return F([1, 2]), packed, I(n), B(c), F(np.arange(6).reshape(2, 3))


def source(text: str) -> str:
    return OPERATORS + text.replace("INPUTS", INPUTS)


MODELS = [
    ("optional null/given", """
operator op { @attrib { a: optional real; } @input { x: real[n]; } @output { y: real[n]; }
    @lower { y[i,] = x[i,] * (a ?? 10.0), i < n; } }
graph G { @input { x: real[2]; } @output { y: real[2]; z: real[2]; } @compose { y = op(x);
    z = op{a=3.0}(x); } }
""", (F([1, 2]),), ([10, 20], [3, 6]), {}),
    ("uniform for rank", """
operator op { @attrib { st: int..(d) = 2; } @input { x: real[sx..(d)]; }
    @output { y: real[sx \\ st ..]; } @lower { y[i..] = x[i * st..], i < sx \\ st; } }
graph G { @input { x: real[3,4]; } @output { y: real[2,2]; z: real[3,2]; w: real[2,4]; }
    @compose { y = op(x); z = op{st=[1,3]}(x); w = op{st=[2,1]}(x); } }
""",
     (F(np.arange(12).reshape(3, 4)),), ([[0, 2], [8, 10]], [[0, 3], [4, 7], [8, 11]],
     [[0, 1, 2, 3], [8, 9, 10, 11]]), {}),
    ("optional deferred default", """
operator op { @attrib { r: optional int; a: int..(k) = [0:r]; } @output { y: int[k + 1]; }
    @compose { y = tell{v=[a.., k]}(); } }
graph G { @input { x: real[1]; } @output { y: int[4]; z: int[3]; } @compose { y = op{r=3}();
    z = op{a=[7,8]}(); } }
""", (F([1]),), ([0, 1, 2, 3], [7, 8, 2]), {}),
    ("deferred chain", """
operator op { @attrib { n: int; b: int = 2 * n; c: int.. = [0:b:n]; }
    @output { y: int[2 + (b \\ n)]; } @compose { y = tell{v=[n, b, c..]}(); } }
graph G { @input { x: real[1]; } @output { y: int; } @compose { y = op{n=3}(); } }
""", (F([1]),), ([3, 6, 0, 3],), {}),
    ("optional pack", """
operator op { @attrib { p: optional int..(k); } @output { y: int[3]; }
    @compose { y = tell{v=[?p ? p + .. : -1, (p * ..) ?? -2, k ?? -3]}(); } }
graph G { @input { x: real[1]; } @output { y: int[3]; z: int[3]; w: int[3]; }
    @compose { y = op(); z = op{p=[3,4]}(); w = op{p=[]}(); } }
""", (F([1]),), ([-1, -2, -3], [7, 12, 2], [0, 1, 0]), {}),
    ("affine pack length", """
operator op { @attrib { p: int..(2 * d) = 1; } @input { x: real[sx..(d)]; }
    @using { before = p[0::2]; after = p[1::2]; os = before + sx + after; }
    @output { y: real[os..]; } @lower { y[i + before ..] += x[i..], i < sx; } }
graph G { @input { x: real[2,2]; } @output { y: real[4,4]; z: real[2,5]; }
    @compose { y = op(x); z = op{p=[0,0,1,2]}(x); } }
""",
     (F([[1, 2], [3, 4]]),), ([[0, 0, 0, 0], [0, 1, 2, 0], [0, 3, 4, 0], [0, 0, 0, 0]],
     [[0, 1, 2, 0, 0], [0, 3, 4, 0, 0]]), {}),
    ("own dimensions concat", """
operator cat { @input { xs: real[n, ..t]..(k); } @using { o = [0, t..] + ...; }
    @output { y: real[n, t + ..]; }
    @lower { y[i, j + o[q]] += xs[q][i, j], q < k, i < n, j < t[q]; } }
graph G { @input { x: real[2,1]; y: real[2,3]; z: real[2,2]; } @output { w: real[2,6]; }
    @compose { w = cat([x, y, z]); } }
""",
     (F([[1], [2]]), F([[3, 4, 5], [6, 7, 8]]), F([[9, 10], [11, 12]])), ([[1, 3, 4, 5, 9, 10],
     [2, 6, 7, 8, 11, 12]],), {}),
    ("null dimensions out", """
operator op { @attrib { k: optional int; } @input { x: real[n]; }
    @using { ks..(?k ? 1 : 0) = [(k ?? 0) ..(?k)]; } @output { y: real[n, k]; }
    @lower { y[i, j..] = x[i,], i < n, j < ks; } }
graph G { @input { x: real[2]; } @output { y: real[2]; z: real[2,3]; } @compose { y = op(x);
    z = op{k=3}(x); } }
""", (F([1, 2]),), ([1, 2], [[1, 1, 1], [2, 2, 2]]), {}),
    ("select and literal packs", """
operator op { @attrib { sq: bool; } @input { x: real[n, m, t..(k)]; }
    @output { y: real[sq ? t : [n, t..] ..]; z: real[1 ..(!sq), n]; }
    @compose { a..(m) = layout.unstack{axis=1}(x);
    y = if sq then { bs..(n) = layout.unstack{axis=0}(a[0]); yield bs[0]; } else a[1];
    z = layout.uniform{shape=[1 ..(!sq), n]}(4.0); } }
graph G { @input { x: real[2,3,2]; } @output { y: real[2]; z: real[2]; u: real[2,2];
    v: real[1,2]; } @compose { y, z = op{sq=true}(x); u, v = op{sq=false}(x); } }
""", (F(np.arange(12).reshape(2, 3, 2)),), ([0, 1], [4, 4], [[2, 3], [8, 9]], [[4, 4]]), {}),
    ("own out dimensions", """
operator cut { @attrib { sizes: int..(k); } @input { x: real[n]; }
    @assert { (sizes + ..) == n: "sum {sizes + ..} is not {n}"; }
    @using { o = [0, sizes..] + ...; } @output { ys: real[..sizes]..(k); }
    @lower { ys[q][i,] = x[i + o[q],], q < k, i < sizes[q]; } }
graph G { @input { x: real[6]; } @output { a: real[1]; c: real[3]; d: real[2]; }
    @compose { [a, c, d] = cut{sizes=[1,3,2]}(x); } }
""", (F([1, 2, 3, 4, 5, 6]),), ([1], [2, 3, 4], [5, 6]), {}),
    ("optional input agreement", """
operator op { @input { x: real[n]; w: optional real[n, m]; bs: optional real[q]..(p); }
    @output { y: int[4]; } @compose { y = tell{v=[n, m ?? -1, p ?? -2, q ?? -3]}(); } }
graph G { @input { x: real[2]; w: real[2,3]; } @output { y: int[4]; z: int[4]; u: int[4]; }
    @compose { y = op(x); z = op(x, w); u = op(x, ~, [x, x]); } }
""", (F([1, 2]), F(np.full((2, 3), 0))), ([2, -1, -2, -3], [2, 3, -2, -3], [2, -1, 2, 2]), {}),
    ("const list, index, pack", """
operator op { @attrib { n: int = 3; } @input { x: real[]; }
    @constant { l: real[2,3] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    e: int[2,n] = 10 * i + j, i < 2, j < n; u: bool[2] = true;
    ps: real[..[1,2]]..(2) = [7.0, 8.0]; } @output { y: real[2,3]; z: int[2,n]; u2: bool[2];
    p: real[2]; } @compose { y = l; z = e; u2 = u; p = ps[1]; } }
graph G { @input { x: real[]; } @output { y: real[2,3]; z: int[2,3]; u: bool[2]; p: real[2]; }
    @compose { y, z, u, p = op(x); } }
""", (F(0),), ([[1, 2, 3], [4, 5, 6]], [[0, 1, 2], [10, 11, 12]], [True, True], [8, 8]), {}),
    ("const packed index", """
operator op { @attrib { d: int = 2; } @input { x: real[n]; }
    @constant { c: real[n ..(d)] = real((i * [n ..(d)]) + ..), i < [n ..(d)]; }
    @output { y: real[n ..(d)]; } @compose { y = c; } }
graph G { @input { x: real[2]; } @output { y: real[2,2]; z: real[2,2,2]; }
    @compose { y = op(x); z = op{d=3}(x); } }
""", (F([0, 0]),), ([[0, 2], [2, 4]], [[[0, 2], [2, 4]], [[2, 4], [4, 6]]]), {}),
    ("variables by scope", """
operator inner { @input { x: real[n]; } @variable { w: real[n]; } @output { y: real[n]; }
    @lower { y[i,] = x[i,] * w[i,], i < n; } } operator outer { @input { x: real[n]; }
    @output { y: real[n]; } @compose { y = inner(x); } } operator two { @input { x: real[n]; }
    @variable { v: real[n]; } @output { y: real[n]; } @compose { t = inner(x); u = lab: inner(t);
    y = math.add(u, v); } }
graph G { @input { x: real[2]; } @output { y: real[2]; z: real[2]; } @compose { y = outer(x);
    z = two(x); } }
""",
     (F([1, 2]),), ([2, 4], [17, 29]), {"variables": {"main.G.y.w": F([2, 2]),
     "main.G.z.t.w": F([3, 3]), "main.G.z.lab.w": F([4, 4]), "main.G.z.v": F([5, 5])}}),
    ("order of statements swapped", """
operator op { @input { x: real[n,m]; } @output { y: real[n]; z: real[m]; }
    @lower { y[i,] = 100.0, i < n; z[j,] = 10.0, j < m; z[j,] += x[i,j], i < n, j < m;
    y[i,] += x[i,j], i < n, j < m; } }
graph G { @input { x: real[3,4]; } @output { y: real[3]; z: real[4]; }
    @compose { y, z = op(x); } }
""", (F(np.arange(12).reshape(3, 4)),), ([106, 122, 138], [22, 25, 28, 31]), {}),
    ("pack sum over index", """
operator op { @input { xs: real[n]..(k); } @output { y: real[n]; }
    @lower { y[i,] += xs[q][i,] * real(q + 1), q < k, i < n; } }
graph G { @input { x: real[2]; u: real[2]; } @output { y: real[2]; }
    @compose { y = op([x, u, x]); } }
""", (F([1, 2]), F([10, 20])), ([24, 48],), {}),
    ("locals int index", """
operator op { @attrib { n: int; } @input { x: real[w]; } @output { y: real[w]; }
    @lower { k = (i + n) % w, q = k / 2, y[i,] = x[k,] + x[q,], i < w; } }
graph G { @input { x: real[4]; } @output { y: real[4]; z: real[4]; }
    @compose { y = op{n=1}(x); z = op{n=-1}(x); } }
""", (F([1, 2, 3, 4]),), ([3, 5, 6, 2], [6, 2, 3, 5]), {}),
    ("locals pack", """
operator op { @attrib { p: int..(d); } @input { x: real[t..(d)]; } @output { y: real[t..]; }
    @lower { k = (i + p) % t, y[i..] = x[k..], i < t; } }
graph G { @input { x: real[3,4]; } @output { y: real[3,4]; }
    @compose { y = op{p=[1,-1]}(x); } }
""", (F(np.arange(12).reshape(3, 4)),), ([[7, 4, 5, 6], [11, 8, 9, 10], [3, 0, 1, 2]],), {}),
    ("remap reflect", """
operator op { @attrib { n: int; } @input { x: real[m]; } @output { y: real[m + 2 * n]; }
    @lower { y[i,] = x[|i - n <> n - i : 2 * (m - 1) - (i - n)|,], i < m + 2 * n; } }
graph G { @input { x: real[4]; } @output { y: real[8]; } @compose { y = op{n=2}(x); } }
""", (F([1, 2, 3, 4]),), ([3, 2, 1, 2, 3, 4, 3, 2],), {}),
    ("scatter left affine", """
operator op { @attrib { st: int; off: int; } @input { x: real[n]; w: real[k]; }
    @output { y: real[n * st + k]; }
    @lower { y[|st * i + j - off|,] += x[i,] * w[j,], i < n, j < k; } }
graph G { @input { x: real[3]; w: real[2]; } @output { y: real[8]; }
    @compose { y = op{st=2,off=1}(x, w); } }
""", (F([1, 2, 3]), F([10, 100])), ([100, 20, 200, 30, 300, 0, 0, 0],), {}),
    ("scatter data", """
operator op { @input { x: real[n]; idx: int[n]; } @output { y: real[4]; z: real[4]; }
    @lower { y[i,] = -1.0, i < 4; y[idx[i,],] := x[i,], i < n; z[idx[i,],] += x[i,], i < n; } }
graph G { @input { x: real[4]; q: int[4]; } @output { y: real[4]; z: real[4]; }
    @compose { y, z = op(x, q); } }
""", (F([1, 2, 3, 4]), I([2, 0, 2, 3])), ([2, -1, 3, 4], [2, 0, 4, 4]), {}),
    ("nested nested", """
operator op { @input { x: real[n]; idx: int[k]; } @output { y: real[k]; }
    @lower { y[i,] = x[idx[idx[i,],],], i < k; } }
graph G { @input { x: real[3]; q: int[3]; } @output { y: real[3]; }
    @compose { y = op(x, q); } }
""", (F([10, 20, 30]), I([2, 0, 1])), ([20, 30, 10],), {}),
    ("casts builtins", """
operator op { @input { x: real[n]; } @output { y: int[n]; z: bool[n]; w: real[n]; }
    @lower { y[i,] = int(x[i,]) / 2 + int(x[i,] > 0.0), i < n;
    z[i,] = bool(int(x[i,])) ^ (i == 1), i < n;
    w[i,] = real(i) ** 2.0 + real(x[i,] < 0.0) - `abs`(x[i,]), i < n; } }
graph G { @input { x: real[3]; } @output { y: int[3]; z: bool[3]; w: real[3]; }
    @compose { y, z, w = op(x); } }
""", (F([-3.5, 0.5, 5.5]),), ([-2, 1, 3], [True, True, True], [-2.5, 0.5, -1.5]), {}),
    ("select of index lists", """
operator op { @attrib { t: bool; } @input { x: real[n,m]; }
    @output { y: real[(t ? [m,n] : [n,m])..]; }
    @lower { y[(t ? [j,i] : [i,j])..] = x[i,j], i < n, j < m; } }
graph G { @input { x: real[3,4]; } @output { y: real[4,3]; z: real[3,4]; }
    @compose { y = op{t=true}(x); z = op{t=false}(x); } }
""",
     (F(np.arange(12).reshape(3, 4)),), ([[0, 4, 8], [1, 5, 9], [2, 6, 10], [3, 7, 11]],
     np.arange(12).reshape(3, 4)), {}),
    ("substitution indices", """
operator op { @attrib { axes: int..(k); } @input { x: real[t..(d)]; }
    @output { y: real[t..]; } @lower { y[i..] = x[i[axes] <- t[axes] - 1 - i[axes]..], i < t; } }
graph G { @input { x: real[3,4]; } @output { y: real[3,4]; z: real[3,4]; }
    @compose { y = op{axes=[0]}(x); z = op{axes=[0,1]}(x); } }
""",
     (F(np.arange(12).reshape(3, 4)),), ([[8, 9, 10, 11], [4, 5, 6, 7], [0, 1, 2, 3]],
     [[11, 10, 9, 8], [7, 6, 5, 4], [3, 2, 1, 0]]), {}),
    ("attribute by run-time index", """
operator op { @attrib { p: int..(k); r: real..(k); } @input { x: real[n]; q: int[n]; }
    @output { y: real[n]; } @lower { y[i,] = x[i,] * r[q[i,]] + real(p[i % k]), i < n; } }
graph G { @input { x: real[3]; q: int[3]; } @output { y: real[3]; }
    @compose { y = op{p=[1,2], r=[10.0,100.0]}(x, q); } }
""", (F([1, 2, 3]), I([1, 0, 1])), ([101, 22, 301],), {}),
    ("fold over packed index", """
operator op { @input { x: real[t..(d)]; } @output { y: int[t..]; }
    @lower { y[i..] = (i * [1 ..(d)]) + .., i < t; } }
graph G { @input { x: real[3,4]; } @output { y: int[3,4]; } @compose { y = op(x); } }
""", (F(np.arange(12).reshape(3, 4)),), ([[0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5]],), {}),
    ("optional pack", """
operator op { @input { x: real[n]; ms: optional real[n]..(k); } @output { y: real[n]; }
    @lower { y[i,] = x[i,] + (ms[0][i,] ?? 5.0), i < n; } }
graph G { @input { x: real[2]; } @output { y: real[2]; z: real[2]; } @compose { y = op(x);
    z = op(x, [x, x]); } }
""", (F([1, 2]),), ([6, 7], [2, 4]), {}),
    ("swap in one step", """
operator op { @input { x: real[n]; } @output { ys: real[]..(2); } @lower { ys[] = [0.0, 1.0];
    ys[] := [ys[1][], ys[0][] + ys[1][]], i < n; } }
graph G { @input { x: real[5]; } @output { a: real[]; c: real[]; }
    @compose { [a, c] = op(x); } }
""", (F(np.full((5,), 1)),), (5, 8), {}),
    ("unroll own items in order", """
operator op { @input { x: real[n]; } @output { ys: real[]..(2); } @lower { ys[] = 1.0;
    unroll..(k -> 2) ys[k][] := ys[0][] + ys[1][] + x[i,], i < n; } }
graph G { @input { x: real[1]; } @output { a: real[]; c: real[]; }
    @compose { [a, c] = op(x); } }
""", (F([1]),), (3, 5), {}),
    ("if null promoted", """
operator op { @attrib { k: optional real; } @input { x: real[n]; b: optional real[n]; }
    @output { y: real[n]; } @compose { t = if ?k then math.mul(x, k) else x;
    y = if ?b && ?k then { u = math.add(t, b); yield u; } else t; } }
graph G { @input { INPUTS } @output { y: real[2]; z: real[2]; w: real[2]; }
    @compose { y = op(x); z = op{k=3.0}(x, x); w = op{k=2.0}(x); } }
""", flow(), ([1, 2], [4, 8], [2, 4]), {}),
    ("for with scan outs", """
graph G { @input { INPUTS } @output { s: real[2]; p: real[2]; q: real[2]; r: real[2]; }
    @compose { s, ps..(3), qs..(3) = with a = x for z : xs do { a2 = math.add(a, z);
    d = math.neg(z); yield a2, d, a; }; [p, ~, q] = ps; [~, ~, r] = qs; } }
""", flow(), ([10, 14], [-1, -2], [-5, -6], [5, 8]), {}),
    ("while for scan", """
graph G { @input { INPUTS } @output { s: real[2]; }
    @compose { s = with s = x for z : xs while less{l=8.0}(s) do math.add(s, z); } }
""", flow(), ([5, 8],), {}),
    ("while scan out stacked", """
graph G { @input { INPUTS } @output { y: real; }
    @compose { s, ys..(3) = with s = x for z : xs while less{l=8.0}(s) do { t = math.add(s, z);
    yield t, z; }; y = layout.stack{axis=0}(ys); } }
""", flow(), ([[1, 2], [3, 4]],), {}),
    ("unroll changes shape", """
graph G { @input { INPUTS } @output { s: real[1,1,2]; }
    @compose { s = with s = x unroll..(2) layout.unsqueeze{axes=[0]}(s); } }
""", flow(), ([[[1, 2]]],), {}),
    ("unroll if static inside", """
graph G { @input { INPUTS } @output { s: real[2]; }
    @compose { s = with s = x unroll..(i -> 4) { t = if i % 2 == 0 then inc{by=10.0}(s) else
    math.neg(s); yield t; }; } }
""", flow(), ([1, 2],), {}),
    ("nested loop index", """
graph G { @input { INPUTS } @output { s: int[]; }
    @compose { s = with s = 0 do..(i -> 3) { t = with u = s do..(j -> i) { a = math.mul(i, 10);
    q = math.add(a, j); e = math.add(u, q); yield e; }; yield t; }; } }
""", flow(), (51,), {}),
    ("loop in if in loop", """
graph G { @input { INPUTS } @output { s: real[2]; }
    @compose { s = with s = x for z : xs do..(i ->) { e = math.eq(i, 1);
    t = if e then { u = with u = s do..(2) inc(u); yield u; } else math.add(s, z); yield t; }; } }
""", flow(), ([9, 12],), {}),
    ("pack carried", """
graph G { @input { INPUTS } @output { a: real[2]; d: real[2]; }
    @compose { ps..(3) = with p = xs do..(n) rev(p); [a, ~, d] = ps; } }
""", flow(n=3), ([5, 6], [1, 2]), {}),
    ("labelled block", """
operator op { @input { x: real[n]; } @variable { w: real[]; } @output { y: real[n]; }
    @lower { y[i,] = x[i,] * w[], i < n; } }
graph G { @input { INPUTS } @output { y: real[2]; z: real[2]; }
    @compose { y = lab: { a = op(x); yield a; }; z = other: op(x); } }
""", flow(), ([3, 6], [5, 10]), {"variables": {"main.G.lab.a.w": F(3), "main.G.other.w": F(5)}}),
    ("vars in branches", """
operator op { @input { x: real[n]; } @variable { w: real[]; } @output { y: real[n]; }
    @lower { y[i,] = x[i,] * w[], i < n; } }
graph G { @input { INPUTS } @output { y: real[2]; }
    @compose { y = if c then one: op(x) else two: op(x); } }
""", flow(c=False), ([5, 10],), {"variables": {"main.G.one.w": F(3), "main.G.two.w": F(5)}}),
    ("vars in loop", """
operator op { @input { x: real[n]; } @variable { w: real[]; } @output { y: real[n]; }
    @lower { y[i,] = x[i,] * w[], i < n; } }
graph G { @input { INPUTS } @output { y: real[2]; }
    @compose { y = with s = x do..(2) op(s); } }
""", flow(), ([9, 18],), {"variables": {"main.G.y.w": F(3)}}),
    ("list lhs with rest", """
graph G { @input { INPUTS } @output { y: real[2]; z: real[2]; } @compose { [h, t..(2)] = xs;
    y = math.sub(t[1], h); [(e, o)..] = [xs[0], xs[1], xs[2], x]; z = math.add(o[0], o[1]); } }
""", flow(), ([4, 4], [4, 6]), {}),
    ("agreement inside", """
graph G { @input { x: real[~|5]; y: real[~|6]; } @output { z: real; }
    @compose { z = dot(x, y); } }
""", (F([1, 2]), F([3, 4])), (11,), {}),
    ("pack of open", """
graph G { @input { x: real[~|4..(2)]; } @output { y: real[~,~]; z: real; }
    @compose { y = layout.transpose(x); z = math.sum_reduce{squeeze=true}(x); } }
""", (F([[0, 1, 2], [3, 4, 5]]),), ([[0, 3], [1, 4], [2, 5]], 15), {}),
    ("half", """
graph G { @input { x: real[s|9]; } @output { z: real[~]; w: real[s / 2]; }
    @compose { z = half(x); w = scale(z); } }
""", (F([1, 2, 3, 4, 5]),), ([3, 7], [6, 14]), {}),
    ("data-dependent chain", """
graph G { @input { x: real[s|6]; } @output { z: real[~]; w: real[~]; q: real[]; }
    @compose { z = gt(x); w = scale(z); q = dot(z, w); } }
""", (F([1, -1, 2, 0, 5]),), ([1, 2, 5], [2, 4, 10], 60), {}),
    ("shape in attr", """
graph G { @input { x: real[s|5]; } @output { z: real; n: int; }
    @compose { z = layout.slice{axes=[0], begin=[1], end=[s]}(x);
    n = tell{v=[s, x.rank, x.shape[0] + 1]}(); } }
""", (F([1, 2, 3]),), ([2, 3], [3, 1, 4]), {}),
    ("is symbolic", """
graph G { @input { x: real[s|5]; y: real[t|5]; } @output { z: int[4]; }
    @compose { z = tell{v=[int(s is s), int(s is t), int(s + 1 is 1 + s), int(2 * s is s +
    s)]}(); } }
""", (F([1, 2]), F([1, 2])), ([1, 0, 1, 1],), {}),
    ("loop stacked count", """
graph G { @input { xs: real[2]..(3); n: int[]; } @output { y: real; z: real; }
    @compose { ys..(n) = for x : xs do..(n) scale(x); y = layout.stack{axis=0}(ys);
    z = layout.concat{axis=0}(ys); } }
""", ([F([1, 2]), F([3, 4]), F([5, 6])], I(2)), ([[2, 4], [6, 8]], [2, 4, 6, 8]), {}),
    ("nested generic given", """
operator c1 { @dtype { R: arith; T: arith; } @input { x: T[n]; } @output { y: R[n]; }
    @lower { y[i,] = R(x[i,]), i < n; } } operator c2 { @dtype { S: arith; T: arith; }
    @input { x: T[n]; } @output { y: S[n]; } @compose { t = c1<T>(x); y = c1<S>(t); } }
graph G { @input { x: real[2]; } @output { a: int[2]; } @compose { a = c2<int>(x); } }
""", (F([1.5, 2.5]),), ([1, 2],), {}),
    ("nested labels", """
operator two { @input { x: real[n]; } @variable { w: real[n]; } @output { y: real[n]; }
    @compose { t = math.mul(x, w); y = scale(t); } }
graph G { @input { x: real[2]; } @output { y: real[2]; } @quantize { lab.w: scale{by=10.0}; }
    @compose { a = lab: two(x); y = math.add(a, x); } }
""", (F([1, 2]),), ([61, 162],), {"variables": {"main.G.lab.w": F([3, 4])}}),
    ("public inner", """
public operator two { @input { x: real[n]; } @output { y: real[n]; } @compose { t = scale(x);
    y = scale(t); } }
graph G { @input { x: real[2]; } @output { y: real[2]; } @quantize { y.t: scale{by=5.0}; }
    @compose { y = two(x); } }
""", (F([1, 2]),), ([20, 40],), {}),
    ("sub graph 0", """
graph Main { @input { x: real[2]; c: bool[]; } @output { y: real[2]; }
    @compose { y = if c then Sub(x) else lab: Sub{k=5.0}(x); } } graph Sub {
    @attrib { k: real = 3.0; } @input { x: real[~]; } @variable { w: real[]; }
    @output { y: real; } @compose { t = math.mul(x, k); y = math.add(t, w); } }
""",
     (F([1, 2]), B(False)), ([105, 110],), {"variables": {"main.Sub.w": F(10),
     "main.Main.lab.w": F(100)}}),
    ("sub graph in loop", """
graph Main { @input { x: real[2]; } @output { y: real[2]; }
    @compose { y = with a = x while small(a) do step(a); } }
graph step { @input { a: real; } @output { y: real; } @compose { y = math.mul(a, 2.0); } }
graph small { @input { a: real; } @output { y: bool; }
    @compose { t = math.max_reduce{squeeze=true}(a); y = math.lt(t, 9.0); } }
""", (F([1, 2]),), ([8, 16],), {}),
    ("whole pack fold +", """
operator op { @input { xs: real[n]..(k); } @output { y: real[n]; }
    @lower { y[i,] = xs[i,] + .., i < n; } }
graph G { @input { x: real[2]; u: real[2]; } @output { y: real[2]; }
    @compose { y = op([x, u, x]); } }
""", (F([1, 2]), F([3, 5])), ([5, 9],), {}),
    ("whole pack list", """
operator op { @input { xs: real[n]..(k); } @output { y: real[n]; }
    @lower { y[i,] = [xs[i,].., 2.0] * .., i < n; } }
graph G { @input { x: real[2]; u: real[2]; } @output { y: real[2]; }
    @compose { y = op([x, u]); } }
""", (F([1, 7]), F([3, 5])), ([6, 70],), {}),
    ("pack static arith index", """
operator op { @input { xs: real[n]..(k); } @output { ys: real[n]..(k); }
    @lower { ys[q][i,] = xs[k - 1 - q][i,] + xs[(q + 1) % k][i,], q < k, i < n; } }
graph G { @input { x: real[2]; u: real[2]; v: real[2]; } @output { a: real[2]; c: real[2];
    d: real[2]; } @compose { [a, c, d] = op([x, u, v]); } }
""", (F([1, 1]), F([2, 2]), F([4, 4])), ([6, 6], [6, 6], [2, 2]), {}),
    ("mixed guard", """
operator op { @input { x: real[n,m]; } @output { y: real[n,m]; }
    @lower { y[i,j] += x[i,|j - 1|] * x[|i + 1|,j], i < n, j < m; } }
graph G { @input { x: real[3,4]; } @output { y: real[3,4]; } @compose { y = op(x); } }
""", (F(np.arange(12).reshape(3, 4)),), ([[0, 0, 6, 14], [0, 36, 50, 66], [0, 0, 0, 0]],), {}),
    ("contraction of locals guard", """
operator op { @input { x: real[n]; } @output { y: real[n]; }
    @lower { p = |i + j - 1|, y[i,] += x[p,] * real(j + 1), i < n, j < 3; } }
graph G { @input { x: real[3]; } @output { y: real[3]; } @compose { y = op(x); } }
""", (F([1, 2, 3]),), ([8, 14, 8],), {}),
    ("packs of bounds expr", """
operator op { @attrib { p: int..(d); } @input { x: real[t..(d)]; } @output { y: real[]; }
    @lower { y[] += x[i..], i < (t << p); } }
graph G { @input { x: real[3,4]; } @output { y: real[]; z: real[]; }
    @compose { y = op{p=[2,9]}(x); z = op{p=[9,1]}(x); } }
""", (F(np.arange(12).reshape(3, 4)),), (28, 12), {}),
    ("flat list value", """
operator op { @attrib { v: real..(sh * ..); sh: int..; }
    @using { st = ([1, sh[::-1]..] * ...)[:-1][::-1]; } @output { y: real[sh..]; }
    @lower { y[i..] = v[(i * st) + ..], i < sh; } }
graph G { @input { x: real[1]; } @output { y: real[2,3]; }
    @compose { y = op{sh=[2,3], v=[1.0,2.0,3.0,4.0,5.0,6.0]}(); } }
""", (F([1]),), ([[1, 2, 3], [4, 5, 6]],), {}),
    ("int pow and minmax", """
operator op { @input { x: int[n]; } @output { y: int[n]; }
    @lower { y[i,] = (x[i,] ** 2 << 10) >> -x[i,] * 3, i < n; } }
graph G { @input { x: int[3]; } @output { y: int[3]; } @compose { y = op(x); } }
""", (I([2, -5, 4]),), ([4, 15, 10],), {}),
    ("while with if and scan", """
graph G { @input { INPUTS } @output { s: real[2]; k: int[]; }
    @compose { s, k = with s = x, k = 0 while math.lt(k, 10) do { e = math.eq(k, 2);
    t = if e then inc{by=100.0}(s) else inc(s); d = math.add(k, 1);
    g = if less{l=50.0}(t) then d else { yield 99; }; yield t, g; }; } }
""", flow(), ([103, 104], 99), {}),
    ("optional pack arg", """
operator op { @input { x: real[n]; zs: optional real[n]..(k); } @output { y: real[n]; }
    @compose { y = if ?zs then { t = with s = x for z : zs do math.add(s, z); yield t; }
    else x; } }
graph G { @input { INPUTS } @output { y: real[2]; z: real[2]; w: real[2]; }
    @compose { y = op(x); z = op(x, xs); w = op(x, []); } }
""", flow(), ([1, 2], [10, 14], [1, 2]), {}),
    ("using assert", """
graph G { @attrib { k: int = 2; } @input { x: real[n|4, k]; } @using { m = k * 2;
    [a, b..] = [n, k, m]; } @assert { m == 4: 'm {m}'; } @output { y: real[n,k]; z: int[~]; }
    @compose { y = scale{by=real(m)}(x); z = tell{v=[m, b..]}(); } }
""", (F(np.full((3, 2), 1)),), (np.full((3, 2), 4), [4, 2, 4]), {}),
    ("generic graph", """
graph G { @dtype { T: num = real; } @attrib { k: T = T(3); } @input { x: T[2]; }
    @output { y: T[2]; } @compose { y = math.mul(x, k); } }
""", (I([1, 2]),), ([3, 6],), {"types": {"T": "int"}}),
    ("pack in different lengths", """
graph G { @input { xs: real[..n|3]..(2); } @output { z: real; }
    @compose { z = layout.concat{axis=0}(xs); } }
""", ([F([1, 2]), F([3])],), ([1, 2, 3],), {}),
    ("blocks reversed", """
graph G { @compose { y = op{k=2}(x); } @output { y: real[4]; } @input { x: real[2]; } }
    operator op { @lower { y[i,] = x[i % n,] * c[i % 2,], i < m; }
    @constant { c: real[2] = [1.0, -1.0]; } @output { y: real[m]; } @using { m = n * k; }
    @input { x: real[n]; } @attrib { k: int; } }
""", (F([1, 2]),), ([1, -2, 1, -2],), {}),
    ("is as dimension name", """
operator op { @input { x: real[b, is..(d)]; } @output { y: real[b]; } @using { v = is * ..; }
    @lower { y[i,] += x[i, j..] / real(v), i < b, j < is; } } graph G { @input { x: real[2,2,2]; }
    @output { y: real[2]; } @compose { y = op(x); } }
""", (F(np.arange(8).reshape(2, 2, 2)),), ([1.5, 5.5],), {}),
    ("uniform attr in shape", """
graph G { @attrib { d: int = 2; sh: int..(d) = 3; } @input { x: real[sh..]; }
    @output { y: real[sh..]; } @compose { y = scale(x); } }
""", (F(np.full((3, 3), 1)),), (np.full((3, 3), 2),), {}),
    ("attr default chain", """
graph G { @attrib { a: int = 2 * c; c: int = 3; } @input { x: real[a]; }
    @output { y: real[a]; } @compose { y = scale(x); } }
""", (F(np.full((6,), 1)),), (np.full((6,), 2),), {}),
]  # fmt: skip


REFUSED: list[tuple[str, str, Any, str, Any]] = [
    ("length checked", """
operator op { @attrib { a: int..(k); bb: int..(k) = 5; } @output { y: int[2 * k]; }
    @compose { y = tell{v=[(a, bb)..]}(); } }
graph G { @input { x: real[1]; } @output { y: int; }
    @compose { y = op{a=[1,2], bb=[1,2,3]}(); } }
""", (F([1]),), "k", {}),
    ("assert fires 0", """
operator op { @attrib { a: int; bb: int; c: int = 1; } @using { r = a / bb; }
    @assert { r + c == 4: "sum {r} + {c}"; a % bb == 0: "not divisible", a, bb;
    bb > 0: "b must be positive", bb; } @output { y: int[1]; } @compose { y = tell{v=[r]}(); } }
graph G { @input { x: real[1]; } @output { y: int[1]; } @compose { y = op{a=9, bb=0}(); } }
""", (F([1]),), "b must be positive", {}),
    ("assert packed fires", """
operator op { @attrib { p: optional int..(k); a: int..(m) = [1,2]; }
    @assert { p > 0: "p {p}", 'label': p; a > 0: "a {a}"; } @output { y: int[m]; }
    @compose { y = tell{v=a}(); } }
graph G { @input { x: real[1]; } @output { y: int[2]; } @compose { y = op{p=[1,0]}(); } }
""", (F([1]),), "p [1, 0]", {}),
    ("agreement inside broken", """
graph G { @input { x: real[~|5]; y: real[~|6]; } @output { z: real; }
    @compose { z = dot(x, y); } }
""", (F([1, 2]), F([3, 4, 5])), "", {}),
    ("assert at run fails", """
graph G { @input { x: real[s|9]; } @output { z: real; } @compose { z = even(x); } }
""", (F([1, 2, 3]),), "n = 3 is odd", {}),
    ("run-time assert", """
graph G { @input { x: real[n|9]; } @assert { n % 2 == 0: 'n {n} is odd'; }
    @output { y: real; } @compose { y = scale(x); } }
""", (F([1, 2, 3]),), "n 3 is odd", {}),
]  # fmt: skip

COMPILED = {
    "own dimensions concat",
    "unroll own items in order",
    "scatter left affine",
    "locals int index",
    "loop in if in loop",
    "pack carried",
    "vars in branches",
    "while with if and scan",
    "loop stacked count",
    "half",
    "data-dependent chain",
    "nested labels",
    "pack static arith index",
    "contraction of locals guard",
    "const list, index, pack",
    "pack of open",
}


@pytest.mark.parametrize(
    ("text", "given", "expected", "options"),
    [pytest.param(*rest, id=name) for name, *rest in MODELS],
)
def test_models_mean(text: str, given: Any, expected: Any, options: Any, matches: Any) -> None:
    matches(tvm_nnef.evaluate(source(text), *given, dialect="draft", **options), expected)


@pytest.mark.sampled(9)
@pytest.mark.parametrize(
    ("text", "given", "expected", "options"),
    [pytest.param(*rest, id=name) for name, *rest in MODELS if name in COMPILED],
)
def test_compiled_models_mean_the_same(
    text: str, given: Any, expected: Any, options: Any, matches: Any
) -> None:
    executable = tvm_nnef.build(source(text), dialect="draft", progress=False, **options)
    matches(executable(*given), expected)


@pytest.mark.parametrize(
    ("text", "given", "words", "options"),
    [pytest.param(*rest, id=name) for name, *rest in REFUSED],
)
def test_models_are_refused(text: str, given: Any, words: str, options: Any) -> None:
    with pytest.raises(tvm_nnef.NnefError) as problem:
        tvm_nnef.evaluate(source(text), *given, dialect="draft", **options)
    assert words in str(problem.value)


@pytest.mark.parametrize("update", ["w = [w[1], x];", "w..(2) = [w[1], x];"])
def test_packs_of_variables_are_updated(update: str) -> None:
    text = """graph G { @input { x: real[]; } @variable { w: real[]..(2); } @output { y: real[]; }
        @compose { y = math.sum_n(w); } @update { UPDATE } }
    """.replace("UPDATE", update)
    start = {"main.G.w:1": F(10), "main.G.w:2": F(20)}
    executable = tvm_nnef.build(source(text), variables=start, progress=False)
    found = [np.sum(executable(F(step))[0]) for step in (1, 2, 3)]
    assert found == [30, 20 + 1, 1 + 2]
