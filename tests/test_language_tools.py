"""Models of the tools dialect in odd combinations (tools-dialect.md, sections 2 to 11).

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
W = np.arange(12.0).reshape(3, 4)

OPERATORS = """
import math; import layout;
operator tell { @attrib { v: int..(n); } @output { y: int[n]; } @lower { y[i,] = v[i], i < n; } }
operator inc { @attrib { by: real = 1.0; } @input { x: real[t..]; } @output { y: real[t..]; }
    @lower { y[i..] = x[i..] + by, i < t; } }
operator less { @attrib { l: real; } @input { x: real[n]; } @output { y: bool[]; }
    @compose { t = math.sum_reduce{squeeze=true}(x); y = math.lt(t, l); } }
operator rev { @input { xs: real[n]..(k); } @output { ys: real[n]..(k); }
    @compose { ys = xs[::-1]; } }
operator _priv { @input { x: real[n]; } @output { y: real[n]; }
    @lower { y[i,] = x[i,] >? 1.5, i < n; } }
operator pub { @input { x: real[n]; } @output { y: real[n]; } @compose { y = _priv(x); } }
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
    ("with local", """
operator op { @input { x: real[s..]; } @output { y: real[s..]; }
    @lower { with z = x[i..] * x[i..], w = z + 1.0: y[i..] = z + w * sin(x[i..]), i < s; } }
graph G { @input { x: real[3,4]; } @output { y: real[3,4]; } @compose { y = op(x); } }
""", (F(W),), (W**2 + (W**2 + 1) * np.sin(W),), {}),
    ("with unroll", """
operator op { @input { xs: real[n]..(k); } @output { ys: real[n]..(k); }
    @lower { unroll..(q -> k) with z = xs[q][i,] * 2.0: ys[q][i,] = z + real(q), i < n; } }
graph G { @input { x: real[2]; u: real[2]; } @output { a: real[2]; c: real[2]; }
    @compose { [a, c] = op([x, u]); } }
""", (F([1, 2]), F([3, 4])), ([2, 4], [7, 9]), {}),
    ("with contraction", """
operator op { @input { x: real[n,m]; } @output { y: real[n]; }
    @lower { with d = x[i,j] - 1.0: y[i,] += d * d, i < n, j < m; } }
graph G { @input { x: real[3,4]; } @output { y: real[3]; } @compose { y = op(x); } }
""", (F(np.arange(12).reshape(3, 4)),), ([6, 86, 294],), {}),
    ("contract <?=", """
operator op { @input { x: real[n,m]; } @output { y: real[n]; }
    @lower { y[i,] <?= x[i,j], i < n, j < m; } }
graph G { @input { x: real[3,4]; } @output { y: real[3]; } @compose { y = op(x); } }
""", (F([[-5, -4, -3, -2], [-1, 0, 1, 2], [3, 4, 5, 6]]),), ([-5, -1, 3],), {}),
    ("contract int >?=", """
operator op { @input { x: int[n,m]; } @output { y: int[n]; }
    @lower { y[i,] >?= x[i,j], i < n, j < m; } }
graph G { @input { x: int[3,4]; } @output { y: int[3]; } @compose { y = op(x); } }
""", (I([[-5, -4, -3, -2], [-1, 0, 1, 2], [3, 4, 5, 6]]),), ([-2, 2, 6],), {}),
    ("contract empty min", """
operator op { @input { x: real[n,m]; } @output { y: real[n]; z: int[n]; }
    @lower { y[i,] <?= x[i,j], i < n, j < 0; z[i,] >?= i, i < n, j < 0; } }
graph G { @input { x: real[2,4]; } @output { y: real[2]; z: int[2]; }
    @compose { y, z = op(x); } }
""", (F(np.arange(8).reshape(2, 4)),), ([INF, INF], [-2**31, -2**31]), {}),
    ("guard with init", """
operator op { @input { x: real[n]; } @output { y: real[n]; } @lower { y[i,] = -1.0, i < n;
    y[i,] := x[|i - 1|,], i < n; } }
graph G { @input { x: real[3]; } @output { y: real[3]; } @compose { y = op(x); } }
""", (F([1, 2, 3]),), ([-1, 1, 2],), {}),
    ("guard plain = keeps zero", """
operator op { @input { x: real[n]; } @output { y: real[n]; }
    @lower { y[i,] = x[|i - 1|,] + 5.0, i < n; } }
graph G { @input { x: real[3]; } @output { y: real[3]; } @compose { y = op(x); } }
""", (F([1, 2, 3]),), ([0, 6, 7],), {}),
    ("guard in local", """
operator op { @attrib { o: int; } @input { x: real[n]; } @output { y: real[n]; }
    @lower { with j = |i - o|: y[i,] = x[j,], i < n; } }
graph G { @input { x: real[3]; } @output { y: real[3]; z: real[3]; }
    @compose { y = op{o=1}(x); z = op{o=-1}(x); } }
""", (F([1, 2, 3]),), ([0, 1, 2], [2, 3, 0]), {}),
    ("cond =", """
operator op { @input { x: real[n]; } @output { y: real[n]; }
    @lower { y[i,] = x[i,], i < n | x[i,] > 1.0; } }
graph G { @input { x: real[3]; } @output { y: real[3]; } @compose { y = op(x); } }
""", (F([1, 2, 3]),), ([0, 2, 3],), {}),
    ("int divs", """
operator op { @input { x: int[n]; d: int[n]; } @output { a: int[n]; c: int[n]; r: int[n]; }
    @lower { a[i,] = x[i,] / d[i,], i < n; c[i,] = x[i,] \\ d[i,], i < n;
    r[i,] = x[i,] % d[i,], i < n; } }
graph G { @input { x: int[6]; d: int[6]; } @output { a: int[6]; c: int[6]; r: int[6]; }
    @compose { a, c, r = op(x, d); } }
""",
     (I([7, -7, 7, -7, -6, 6]), I([2, 2, -2, -2, 3, -3])), ([3, -3, -3, 3, -2, -2],
     [4, -4, -4, 4, -2, -2], [1, -1, 1, -1, 0, 0]), {}),
    ("colon index pack", """
operator op { @input { data: real[s..(d)]; idx: int[n,d]; } @output { y: real[n]; }
    @lower { y[i,] = data[idx[i,:]..], i < n; } }
graph G { @input { x: real[3,4]; q: int[2,2]; } @output { y: real[2]; }
    @compose { y = op(x, q); } }
""", (F(np.arange(12).reshape(3, 4)), I([[1, 2], [2, 0]])), ([6, 8],), {}),
    ("colon left", """
operator op { @input { x: real[n]; } @output { y: int[2,n]; }
    @lower { y[:,i] = [i, n - i], i < n; } }
graph G { @input { x: real[3]; } @output { y: int[2,3]; } @compose { y = op(x); } }
""", (F([1, 2, 3]),), ([[0, 1, 2], [3, 2, 1]],), {}),
    ("colon scatter_nd", """
operator op { @input { data: real[s..(d)]; idx: int[n,d]; u: real[n]; }
    @output { y: real[s..]; } @lower { y[i..] = data[i..], i < s;
    y[idx[k,:]..] := u[k,], k < n; } }
graph G { @input { x: real[3,4]; q: int[2,2]; u: real[2]; } @output { y: real[3,4]; }
    @compose { y = op(x, q, u); } }
""",
     (F(np.arange(12).reshape(3, 4)), I([[1, 2], [2, 0]]), F([100, 200])), ([[0, 1, 2, 3],
     [4, 5, 100, 7], [200, 9, 10, 11]],), {}),
    ("counted", """
operator op { @input { x: real[n]; } @output { y: real[k|n]; }
    @lower { y[k,] = x[i,], i < n | x[i,] > 1.0; } }
graph G { @input { x: real[4]; } @output { y: real; z: real; } @compose { y = op(x);
    z = math.mul(y, 2.0); } }
""", (F([1, 2, 0, 3]),), ([2, 3], [4, 6]), {}),
    ("counted nonzero", """
operator op { @input { x: real[s..(d)]; } @output { index: int[d,k|(s * ..)]; }
    @lower { index[:,k] = i, i < s | x[i..] != 0.0; } }
graph G { @input { x: real[2,3]; } @output { y: int; } @compose { y = op(x); } }
""", (F([[0, 1, 0], [2, 0, 3]]),), ([[0, 1, 1], [1, 0, 2]],), {}),
    ("counted none", """
operator op { @input { x: real[n]; } @output { y: real[k|n]; }
    @lower { y[k,] = x[i,], i < n | x[i,] > 1.0; } }
graph G { @input { x: real[4]; } @output { y: real; z: real[]; } @compose { y = op(x);
    z = math.sum_reduce{squeeze=true}(y); } }
""", (F([1, 0, 0, 1]),), (np.zeros((0,)), 0), {}),
    ("packed :=", """
operator op { @input { x: real[m,n]; } @output { idx: int[]..(2); } @lower { idx[] = 0;
    idx[] := [i,j], i < m, j < n | x[i,j] > x[idx[]..]; } }
graph G { @input { x: real[2,3]; } @output { a: int[]; c: int[]; }
    @compose { [a, c] = op(x); } }
""", (F([[1, 5, 2], [3, 7, 7]]),), (1, 1), {}),
    ("init null dropped", """
operator op { @input { x: real[n,m]; b: optional real[n]; } @output { y: real[n]; }
    @lower { y[i,] = b[i,], i < n; y[i,] >?= x[i,j], i < n, j < m; } }
graph G { @input { x: real[2,4]; b: real[2]; } @output { y: real[2]; z: real[2]; }
    @compose { y = op(x); z = op(x, b); } }
""", (F([[-20, -19, -18, -17], [-16, -15, -14, -13]]), F([0, -100])), ([-17, -13], [0, -13]), {}),
    ("bounds earlier/packs/select", """
operator op { @attrib { low: bool; } @input { x: real[n,n]; } @output { y: real[n,n]; }
    @lower { y[i,j] = x[i,j], i < n, j < (low ? i + 1 : n); } }
graph G { @input { x: real[3,3]; } @output { y: real[3,3]; z: real[3,3]; }
    @compose { y = op{low=true}(x); z = op{low=false}(x); } }
""", (F(np.full((3, 3), 1)),), ([[1, 0, 0], [1, 1, 0], [1, 1, 1]], np.full((3, 3), 1)), {}),
    ("neg offset window", """
operator op { @attrib { st: int; } @input { x: real[n]; w: real[f]; }
    @using { total = (n / st - 1) * st + f - n; offset = total / 2; } @output { y: real[n / st]; }
    @lower { y[i,] += x[|st * i + j - offset|,] * w[j,], i < n / st, j < f; } }
graph G { @input { x: real[7]; w: real[1]; } @output { y: real[2]; }
    @compose { y = op{st=3}(x, w); } }
""", (F([1, 2, 3, 4, 5, 6, 7]), F([10])), ([20, 50],), {}),
    ("real mod and ceil div", """
operator op { @input { x: real[n]; } @output { y: real[n]; z: real[n]; }
    @lower { y[i,] = x[i,] % 2.0, i < n; z[i,] = x[i,] \\ 2.0, i < n; } }
graph G { @input { x: real[4]; } @output { y: real[4]; z: real[4]; }
    @compose { y, z = op(x); } }
""", (F([5.5, -5.5, 4, -3]),), ([1.5, -1.5, 0, -1], [3, -2, 2, -1]), {}),
    ("bool ops", """
operator op { @input { x: bool[n]; y: bool[n]; } @output { z: bool[n]; w: bool[]; }
    @lower { z[i,] = x[i,] ^ y[i,] || !x[i,], i < n; w[] |= x[i,] && y[i,], i < n; } }
graph G { @input { x: bool[4]; y: bool[4]; } @output { z: bool[4]; w: bool[]; }
    @compose { z, w = op(x, y); } }
""",
     (B([False, False, True, True]), B([False, True, False, True])), ([True, True, True, False],
     True), {}),
    ("private", """
graph G { @input { INPUTS } @output { y: real[2]; } @compose { y = pub(x); } }
""", flow(), ([1.5, 2],), {}),
    ("for idx", """
graph G { @input { INPUTS } @output { p: real[2]; q: real[2]; r: real[2]; }
    @compose { ys..(3) = for z : xs do..(i ->) { r = layout.cast<real>(i); q = math.mul(z, r);
    yield q; }; [p, q, r] = ys; } }
""", flow(), ([0, 0], [3, 4], [10, 12]), {}),
    ("unroll idx int", """
graph G { @input { INPUTS } @output { p: real[2]; q: real[2]; r: real[2]; }
    @compose { ys..(3) = for z : xs unroll..(i -> 3) inc{by=real(i)}(z); [p, q, r] = ys; } }
""", flow(), ([1, 2], [4, 5], [7, 8]), {}),
    ("with for while do", """
graph G { @input { INPUTS } @output { s: real[2]; }
    @compose { s = with s = x for z : xs while less{l=8.0}(s) do..(n) math.add(s, z); } }
""", flow(n=1), ([2, 4],), {}),
    ("do while post", """
graph G { @input { INPUTS } @output { s: real[2]; }
    @compose { s = with s = x do inc(s) while less{l=8.0}(s); } }
""", flow(), ([4, 5],), {}),
    ("zero dyn", """
graph G { @input { INPUTS } @output { s: real[2]; }
    @compose { s = with s = x do..(n) inc(s); } }
""", flow(n=0), ([1, 2],), {}),
    ("stacked count", """
graph G { @input { INPUTS } @output { y: real; }
    @compose { ys..(3) = for z : xs do..(n) inc(z); y = layout.stack{axis=0}(ys); } }
""", flow(), ([[2, 3], [4, 5]],), {}),
    ("math ints trunc", """
graph G { @input { INPUTS k: int[4]; d: int[4]; } @output { y: int[4]; z: int[4]; }
    @compose { y = math.div(k, d); z = math.mod(k, d); } }
""", (*flow(), I([7, -7, 7, -7]), I([2, 2, -2, -2])), ([3, -3, -3, 3], [1, -1, 1, -1]), {}),
    ("layout.tensor", """
graph G { @input { INPUTS } @output { y: real[2,2]; z: int[3]; }
    @compose { y = layout.tensor{shape=[2,2], value=[1.0,2.0,3.0,4.0]}();
    z = layout.tensor{shape=[3], value=7}(); } }
""", flow(), ([[1, 2], [3, 4]], [7, 7, 7]), {}),
    ("slice to start", """
graph G { @input { INPUTS } @output { z: real; }
    @compose { z = layout.slice{axes=[1], begin=[2], end=[-1], stride=[-1]}(m); } }
""", flow(), ([[2, 1, 0], [5, 4, 3]],), {}),
    ("argmax_nd", """
graph G { @input { INPUTS } @output { y: int; }
    @compose { y = math.argmax_nd{squeeze=true}(m); } }
""", flow(), ([1, 2],), {}),
    ("cumsum", """
graph G { @input { INPUTS } @output { y: real[2,3]; z: real[2,3]; }
    @compose { y = math.cumsum{axis=1}(m);
    z = math.cumsum{axis=1, exclusive=true, reverse=true}(m); } }
""", flow(), ([[0, 1, 3], [3, 7, 12]], [[3, 2, 0], [9, 5, 0]]), {}),
    ("static attr ok", """
operator op { @attrib { k: dynamic int = n; } @input { x: real[n]; } @output { y: real[n]; }
    @lower { y[i,] = x[i,] * real(k), i < n; } }
graph G { @input { INPUTS } @output { y: real[2]; z: real[2]; } @compose { y = op(x);
    z = op{k=3}(x); } }
""", flow(), ([2, 4], [3, 6]), {}),
    ("dyn pack attr", """
operator op { @attrib { p: dynamic int..(k); } @input { x: real[a,b]; }
    @output { y: real[a,b + (p + ..)]; } @lower { y[i,j + p[0]] += x[i,j], i < a, j < b; } }
graph G { @input { INPUTS } @output { y: real; } @compose { y = op{p=[x.shape[0], 1]}(m); } }
""", flow(), ([[0, 0, 0, 1, 2, 0], [0, 0, 3, 4, 5, 0]],), {}),
    ("const transposed", """
graph G { @input { INPUTS } @output { y: real[2,3]; }
    @constant { e: real[2,3] = real(10 * i + j), i < 2, j < 3; }
    @compose { y = math.add(m, e); } }
""", flow(), ([[0, 2, 4], [13, 15, 17]],), {}),
    ("variables", """
public operator lin { @input { x: real[static n]; } @variable { k: real[n]; }
    @output { y: real[n]; } @lower { y[i,] = x[i,] * k[i,], i < n; } }
graph G { @input { INPUTS } @output { y: real[2]; z: real[2]; } @variable { w: real[2]; }
    @compose { y = math.mul(x, w); z = lab: lin(x); } }
""", flow(), ([3, 8], [5, 12]), {"variables": {"main.G.w": F([3, 4]), "main.G.lab.k": F([5, 6])}}),
    ("branch vars", """
public operator lin { @input { x: real[static n]; } @variable { k: real[n]; }
    @output { y: real[n]; } @lower { y[i,] = x[i,] * k[i,], i < n; } }
graph G { @input { INPUTS } @output { y: real[2]; }
    @compose { y = if c then one: lin(x) else two: lin(x); } }
""",
     flow(c=False), ([5, 12],), {"variables": {"main.G.one.k": F([3, 4]),
     "main.G.two.k": F([5, 6])}}),
    ("labelled block branch", """
public operator lin { @input { x: real[static n]; } @variable { k: real[n]; }
    @output { y: real[n]; } @lower { y[i,] = x[i,] * k[i,], i < n; } }
graph G { @input { INPUTS } @output { y: real[2]; }
    @compose { y = if c then left: { t = lin(x); yield t; } else right: { t = lin(x);
    yield t; }; } }
""",
     flow(), ([3, 8],), {"variables": {"main.G.left.t.k": F([3, 4]),
     "main.G.right.t.k": F([5, 6])}}),
    ("quantize full name", """
operator q { @attrib { by: real; } @input { a: real[s..]; } @output { b: real[s..]; }
    @lower { b[i..] = a[i..] * by, i < s; } }
graph G { @input { INPUTS } @output { y: real[2]; } @quantize { main.G.x: q{by=2.0};
    main.G.y: q{by=3.0}; } @compose { y = math.neg(x); } }
""", flow(), ([-6, -12],), {}),
    ("bool lengths", """
operator op { @attrib { f: bool; } @input { x: real[a,b]; } @output { y: real[a,1 ..(f)]; }
    @lower { y[i,0 ..(f)] += x[i,j], i < a, j < b; } }
graph G { @input { INPUTS } @output { y: real; z: real; } @compose { y = op{f=true}(m);
    z = op{f=false}(m); } }
""", flow(), ([[3], [12]], [3, 12]), {}),
    ("compl flags", """
operator op { @attrib { ncx: bool = true; } @input { x: real[c..(ncx), t, c..(!ncx)]; }
    @output { y: int[3]; } @lower { y[i,] = [x.rank, c, t][i], i < 3; } }
graph G { @input { INPUTS } @output { y: int; z: int; } @compose { y = op(m);
    z = op{ncx=false}(m); } }
""", flow(), ([2, 2, 3], [2, 3, 2]), {}),
    ("own dimensions", """
operator cat { @input { xs: real[..t]..(k); } @using { o = [0, t..] + ...; }
    @output { y: real[t + ..]; } @lower { y[j + o[q],] += xs[q][j,], q < k, j < t[q]; } }
graph G { @input { INPUTS w: real[1]; } @output { y: real; } @compose { y = cat([x, w]); } }
""", (*flow(), F([7])), ([1, 2, 7],), {}),
    ("uniform null", """
operator cat { @input { xs: real[..t]..(k); } @using { u = t := ..; } @output { y: int[2]; }
    @lower { y[i,] = [u ?? -1, u * k ?? (t + ..)][i], i < 2; } }
graph G { @input { INPUTS w: real[1]; } @output { y: int[2]; z: int[2]; }
    @compose { y = cat([x, x]); z = cat([x, w]); } }
""", (*flow(), F([7])), ([2, 4], [-1, 3]), {}),
    ("sub graph", """
graph G { @input { INPUTS } @output { y: real[2]; }
    @compose { y = if c then sub(x) else xs[0]; } } graph sub { @input { x: real[2]; }
    @output { y: real[2]; } @compose { y = math.mul(x, 3.0); } }
""", flow(), ([3, 6],), {}),
    ("partial const init", """
operator op { @input { x: real[n]; z: real[n]; } @output { y: real[n]; }
    @lower { y[i,] = 5.0, i < 1; y[i,] += x[i,], i < n; } }
graph G { @input { INPUTS } @output { y: real[2]; } @compose { y = op(x, xs[2]); } }
""", flow(), ([6, 7],), {}),
    ("partial nonconst init", """
operator op { @input { x: real[n]; z: real[n]; } @output { y: real[n]; }
    @lower { y[i,] = z[i,], i < 1; y[i,] += x[i,], i < n; } }
graph G { @input { INPUTS } @output { y: real[2]; } @compose { y = op(x, xs[2]); } }
""", flow(), ([6, 2],), {}),
    ("max fold as dimension", """
operator op { @input { xs: real[..t]..(k); } @output { y: real[k,t >? ..]; }
    @lower { y[q,j] = xs[q][j,], q < k, j < t[q]; } }
graph G { @input { INPUTS w: real[1]; } @output { y: real; } @compose { y = op([x, w]); } }
""", (*flow(), F([7])), ([[1, 2], [7, 0]],), {}),
    ("max fold in using", """
graph G { @input { INPUTS } @output { y: int[1]; }
    @compose { y = tell{v=[([3,8,2] >? ..) - 1]}(); } }
""", flow(), ([7],), {}),
    ("dyn graph", """
operator op { @input { x: real[n]; } @output { y: real[n - 1]; }
    @lower { y[i,] = x[i,], i < n - 1; } }
graph G { @input { INPUTS v: real[s|9]; } @output { y: real; z: real; }
    @compose { y = layout.concat{axis=0}([v, v]); z = op(v); } }
""", (*flow(), F([1, 2, 3])), ([1, 2, 3, 1, 2, 3], [1, 2]), {}),
    ("dyn trunc division odd", """
operator op { @input { x: real[n]; } @using { k = (1 - n) / 2 + n; } @output { y: real[k]; }
    @lower { y[i,] = x[i,], i < k; } }
graph G { @input { INPUTS v: real[s|9]; } @output { z: real; } @compose { z = op(v); } }
""", (*flow(), F([1, 2, 3, 4])), ([1, 2, 3],), {}),
    ("rounding", """
graph G { @input { INPUTS r: real[4]; } @output { y: real[4]; }
    @compose { y = math.round(r); } }
""", (*flow(), F([0.5, 2.5, -0.5, -2.5])), ([1, 3, -1, -3],), {}),
]  # fmt: skip


REFUSED: list[tuple[str, str, Any, str, Any]] = [
    ("tile dynamic err", """
graph G { @input { INPUTS } @output { y: real; }
    @compose { y = layout.tile{repeats=[x.shape[0]]}(x); } }
""", flow(), "repeats", {}),
]  # fmt: skip

COMPILED = {
    "with local",
    "int divs",
    "colon scatter_nd",
    "counted nonzero",
    "init null dropped",
    "neg offset window",
    "with for while do",
    "math ints trunc",
    "branch vars",
    "uniform null",
    "dyn trunc division odd",
    "argmax_nd",
}


@pytest.mark.parametrize(
    ("text", "given", "expected", "options"),
    [pytest.param(*rest, id=name) for name, *rest in MODELS],
)
def test_models_mean(text: str, given: Any, expected: Any, options: Any, matches: Any) -> None:
    matches(tvm_nnef.evaluate(source(text), *given, dialect="tools", **options), expected)


@pytest.mark.parametrize(
    ("text", "given", "expected", "options"),
    [pytest.param(*rest, id=name) for name, *rest in MODELS if name in COMPILED],
)
def test_compiled_models_mean_the_same(
    text: str, given: Any, expected: Any, options: Any, matches: Any
) -> None:
    executable = tvm_nnef.build(source(text), dialect="tools", progress=False, **options)
    matches(executable(*given), expected)


@pytest.mark.parametrize(
    ("text", "given", "words", "options"),
    [pytest.param(*rest, id=name) for name, *rest in REFUSED],
)
def test_models_are_refused(text: str, given: Any, words: str, options: Any) -> None:
    with pytest.raises(tvm_nnef.NnefError) as problem:
        tvm_nnef.evaluate(source(text), *given, dialect="tools", **options)
    assert words in str(problem.value)
