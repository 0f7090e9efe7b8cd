"""Loops that change the shapes of what they carry, and sequences in loops, against ONNX Runtime."""

from __future__ import annotations

import itertools
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.converters.onnx.operators import control_flow
from tvm_nnef.diagnostics import NnefError

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

Feeds = Sequence[Sequence[Any]]
Model = tuple[str, Callable[[np.random.Generator], Feeds], Any]

CONSTANTS = """
  true = Constant <value = bool {1}> ()
  zero = Constant <value = int64 {0}> ()
  one = Constant <value = int64 {1}> ()
  last = Constant <value = int64 {-1}> ()
  at0 = Constant <value = int64[1] {0}> ()
  at1 = Constant <value = int64[1] {1}> ()
  flat = Constant <value = int64[1] {-1}> ()
  far = Constant <value = int64[1] {9223372036854775807}> ()
  unit = Constant <value = float {1.0}> ()
  nothing = Constant <value = float {0.0}> ()
"""


def text(inputs: str, outputs: str, nodes: str) -> str:
    """A model as text, which may read the constants."""
    return f"agraph ({inputs}) => ({outputs}) {{ {CONSTANTS} {nodes} }}"


def loop(results: str, given: str, carried: str, made: str, nodes: str) -> str:
    """A Loop node that goes on until its count is reached."""
    return (
        f"{results} = Loop ({given}) <body = body (int64 i, bool go{carried and ', '}{carried}) "
        f"=> (bool going{made and ', '}{made}) {{ going = Identity (go) {nodes} }}>"
    )


def normal(random: np.random.Generator, *shape: int) -> np.ndarray:
    return random.standard_normal(shape).astype(np.float32)


def rows(*counts: int) -> Callable[[np.random.Generator], Feeds]:
    """Five rows and numbers of steps."""
    return lambda random: [(normal(random, 5, 4), count) for count in counts]


GROWING: Mapping[str, Model] = {
    "numbers appended": (
        text("int64 n", "int64[m] y, float z", loop(
            "y, z", "n, true, flat, nothing", "int64[a] v, float s", "int64[b] w, float t",
            """p = Reshape (i, flat) w = Concat <axis = 0> (v, p) f = Cast <to = 1> (w)
               r = ReduceSum <keepdims = 0> (f) t = Add (s, r)""")),
        lambda random: [(count,) for count in (0, 1, 2, 5, 30)], {"y": 31}),
    "the newest first": (
        text("float[k, 2] x, int64 n", "float[m, 2] y, int64 size", loop(
            "y, size", "n, true, x, n", "float[a, 2] v, int64 t", "float[b, 2] w, int64 u",
            """f = Cast <to = 1> (i) p = Mul (x, f) w = Concat <axis = 0> (p, v)
               s = Shape (w) u = Gather (s, zero)""")),
        lambda random: [(normal(random, k, 2), n) for k, n in ((3, 2), (3, 0), (1, 4), (4, 1))],
        {"k": 4, "y": 32}),
    "a greedy decoder": (
        text("int64[1, t] prompt, int64 n, float[9, 4] table, float[4, 9] out",
             "int64[1, m] tokens, bool done",
             """tokens, done = Loop (n, true, prompt, true) <body = body
                (int64 i, bool go, int64[1, a] v, bool d) => (bool going, int64[1, b] w, bool e) {
                  rows = Gather <axis = 0> (table, v) h = ReduceMean <keepdims = 0> (rows, at1)
                  logits = MatMul (h, out) next = ArgMax <axis = 1, keepdims = 1> (logits)
                  w = Concat <axis = 1> (v, next) end = Constant <value = int64 {2}> ()
                  s = Squeeze (next) stop = Equal (s, end) going = Not (stop) e = Identity (going)
                }>"""),
        lambda random: [
            (random.integers(0, 9, (1, t)), n, normal(random, 9, 4), normal(random, 4, 9))
            for t, n in ((1, 3), (3, 0), (2, 7), (5, 1), (4, 8))
        ], {"t": 8, "tokens": (None, 16)}),
    "a cache of keys and values": (
        text("float[1, 2, p, 4] k, float[1, 2, p, 4] v, float[1, 2, 1, 4] q, int64 n",
             "float[1, 2, m, 4] k1, float[1, 2, m, 4] v1, float[1, 2, 1, 4] q1, "
             "float[s, 1, 2, 1, 4] each",
             loop("k1, v1, q1, each", "n, true, k, v, q",
                  "float[1, 2, a, 4] c, float[1, 2, a, 4] d, float[1, 2, 1, 4] x",
                  "float[1, 2, b, 4] c1, float[1, 2, b, 4] d1, float[1, 2, 1, 4] y, "
                  "float[1, 2, 1, 4] z",
                  """ck = Sin (x) dv = Cos (x) c1 = Concat <axis = 2> (c, ck)
                     d1 = Concat <axis = -2> (d, dv) ct = Transpose <perm = [0, 1, 3, 2]> (c1)
                     s = MatMul (x, ct) w = Softmax <axis = -1> (s) y = MatMul (w, d1)
                     z = Identity (y)""")),
        lambda random: [
            (normal(random, 1, 2, p, 4), normal(random, 1, 2, p, 4), normal(random, 1, 2, 1, 4), n)
            for p, n in ((1, 3), (3, 0), (2, 8), (5, 1))
        ], {"p": 8, "k1": (None, None, 16)}),
    "a mask beside": (
        text("float[1, t] m0, float[1, t, 4] x0, int64 n", "float[1, m] m1, float[1, m, 4] x1",
             loop("m1, x1", "n, true, m0, x0", "float[1, a] v, float[1, a, 4] x",
                  "float[1, b] w, float[1, b, 4] y",
                  """more = Constant <value = float[1, 1] {1.0}> () w = Concat <axis = 1> (v, more)
                     u = Unsqueeze (v, flat) s = Mul (u, x) r = ReduceMean <keepdims = 1> (s, at1)
                     y = Concat <axis = 1> (x, r)""")),
        lambda random: [
            (normal(random, 1, t), normal(random, 1, t, 4), n) for t, n in ((1, 3), (3, 0), (2, 7))
        ], {"t": 8, "m1": (None, 16)}),
    "as long as a range of the index": (
        text("float[1] x, int64 n", "float[m] y", loop(
            "y", "n, true, x", "float[a] v", "float[b] w",
            """end = Add (i, one) r = Range (zero, end, one) f = Cast <to = 1> (r)
               s = Mul (f, v) l = ReduceMax <keepdims = 1> (s) w = Concat <axis = 0> (v, l)""")),
        lambda random: [(normal(random, 1), n) for n in (0, 1, 4)], {"y": 16}),
    "shrinking": (
        text("float[k] x, int64 n", "float[m] y, float s", loop(
            "y, s", "n, true, x, nothing", "float[a] v, float t", "float[b] w, float u",
            "w = Slice (v, at1, far) r = ReduceSum <keepdims = 0> (v) u = Add (t, r)")),
        lambda random: [(normal(random, k), n) for k, n in ((5, 2), (5, 0), (5, 5), (3, 6))],
        {"k": 8}),
    "two dimensions": (
        text("float[1, 1] x, int64 n", "float[m, k] y", loop(
            "y", "n, true, x", "float[a, b] v", "float[c, d] w",
            """pads = Constant <value = int64[4] {0, 0, 1, 2}> () p = Pad (v, pads)
               w = Add (p, unit)""")),
        lambda random: [(normal(random, 1, 1), n) for n in (0, 1, 4)], {"y": (8, 16)}),
    "by what data say": (
        text("float[4] x, int64 n", "float[m] y", loop(
            "y", "n, true, start", "float[a] v", "float[b] w",
            """f = Cast <to = 1> (i) g = Greater (x, f) p = Compress (x, g)
               w = Concat <axis = 0> (v, p)""").replace(
                   "y =", "start = Constant <value = float[1] {5.0}> () y =", 1)),
        lambda random: [(random.integers(0, 5, 4).astype(np.float32), n) for n in (0, 1, 2, 5)],
        {}),
    "doubled": (
        text("float[k] x, int64 n", "float[m] y", loop(
            "y", "n, true, x", "float[a] v", "float[b] w",
            "m = Neg (v) w = Concat <axis = 0> (v, m)")),
        lambda random: [(normal(random, k), n) for k, n in ((1, 0), (2, 1), (3, 5))], {"k": 8}),
    "as many steps as rows": (
        text("float[k, 3] x", "float[m, 3] y, float[k] s",
             "start = Constant <value = float[1, 3] {1.0, 2.0, 3.0}> () shape = Shape (x) "
             "n = Gather (shape, zero) " + loop(
                 "y, s", "n, true, start", "float[a, 3] v", "float[b, 3] w, float q",
                 """p = Reshape (i, flat) row = Gather <axis = 0> (x, p)
                    l = ReduceMax <keepdims = 1> (v, at0) r = Add (row, l)
                    w = Concat <axis = 0> (v, r) q = ReduceSum <keepdims = 0> (v)""")),
        lambda random: [(normal(random, k, 3),) for k in (1, 2, 5)], {"k": 8}),
    "fewer steps than rows": (
        text("float[k] x", "float[m] y, float[s] z",
             """two = Constant <value = int64 {2}> () shape = Shape (x) rows = Gather (shape, zero)
                n = Sub (rows, two) """ + loop(
                    "y, z", "n, true, x", "float[a] v", "float[b] w, float q",
                    "w = Concat <axis = 0> (v, x) q = ReduceSum <keepdims = 0> (v)")),
        lambda random: [(normal(random, k),) for k in (1, 2, 5)], {"k": 8}),
    "from nothing": (
        text("float[4] x, int64 n", "float[m] y",
             "start = Constant <value = float[0] {}> () " + loop(
                 "y", "n, true, start", "float[a] v", "float[b] w",
                 """p = Reshape (i, flat) q = Gather (x, p) u = Concat <axis = 0> (v, q)
                    l = Gather (u, flat) w = Concat <axis = 0> (u, l)""")),
        lambda random: [(normal(random, 4), n) for n in (0, 1, 2, 4)], {}),
    "nested": (
        text("int64 n, int64 k", "int64[m] y", loop(
            "y", "n, true, at1", "int64[a] v", "int64[b] w",
            """w = Loop (k, true, v) <body = inner (int64 j, bool go2, int64[c] v2)
               => (bool going2, int64[d] w2) { going2 = Identity (go2) s = Add (i, j)
               p = Reshape (s, flat) w2 = Concat <axis = 0> (v2, p) }>""")),
        lambda random: [(0, 0), (1, 2), (3, 2), (2, 0)], {"y": 32, "w": 32}),
    "nested and written out": (
        text("int64 n", "int64[m] y", "k = Constant <value = int64 {2}> () " + loop(
            "y", "n, true, at1", "int64[a] v", "int64[b] w",
            """w = Loop (k, true, v) <body = inner (int64 j, bool go2, int64[c] v2)
               => (bool going2, int64[d] w2) { going2 = Identity (go2) s = Add (i, j)
               p = Reshape (s, flat) w2 = Concat <axis = 0> (v2, p) }>""")),
        lambda random: [(n,) for n in (0, 1, 3)], {"y": 32}),
    "nested, of equal sizes at first only": (
        text("float[2] x, int64 k", "float[a] y, float[b] z",
             "n = Constant <value = int64 {3}> () " + loop(
                 "y, z", "n, true, x, x", "float[c] v, float[d] w", "float[e] v2, float[f] w2",
                 """p, q = Loop (k, true, v, w) <body = inner
                    (int64 j, bool go2, float[g] r, float[h] s)
                    => (bool going2, float[l] r2, float[o] s2) { going2 = Identity (go2)
                    m = Neg (r) r2 = Concat <axis = 0> (r, m) t = Abs (s)
                    s2 = Concat <axis = 0> (s, t) }>
                    v2 = Concat <axis = 0> (p, x) w2 = Identity (q)""")),
        lambda random: [(normal(random, 2), k) for k in (0, 1, 2)], {"p": 256, "q": 256}),
    "ended by a condition": (
        text("float[2] x, float limit", "float[m] y",
             """y = Loop (, true, x) <body = body (int64 i, bool go, float[a] v)
                => (bool going, float[b] w) { s = ReduceSum <keepdims = 1> (v)
                w = Concat <axis = 0> (v, s) q = Squeeze (s) going = Less (q, limit) }>"""),
        lambda random: [(np.array([1, 2], np.float32), np.float32(n)) for n in (0, 20, 4000)],
        {"y": 32}),
    "in one of two branches": (
        text("float[4] x, int64 n", "float[m] y",
             "start = Constant <value = float[1] {5.0}> () " + loop(
                 "y", "n, true, start", "float[a] v", "float[b] w",
                 """p = Reshape (i, flat) r = Gather (x, p) s = Squeeze (r) g = Greater (s, nothing)
                    w = If (g) <then_branch = yes () => (float[c] o) {
                      o = Concat <axis = 0> (v, r)
                    }, else_branch = no () => (float[d] q) { q = Identity (v) }>""")),
        lambda random: [(normal(random, 4), n) for n in (0, 1, 2, 4)], {"y": 8}),
    "a row of a table for each bag": (
        text("float[9, 4] table, int64[k] x, int64[b] offsets", "float[b, 4] y",
             """shape = Shape (x) all = Concat <axis = 0> (offsets, shape)
                starts = Slice (all, at0, flat) ends = Slice (all, at1, far)
                bags = Shape (ends) n = Gather (bags, zero) """ + loop(
                    "y", "n, true", "", "float[4] w",
                    """s = Gather (starts, i) e = Gather (ends, i) s1 = Unsqueeze (s, at0)
                       e1 = Unsqueeze (e, at0) items = Slice (x, s1, e1, at0)
                       rows = Gather <axis = 0> (table, items)
                       w = ReduceSum <keepdims = 0> (rows, at0)""")),
        lambda random: [
            (normal(random, 9, 4), random.integers(0, 9, k), np.array(offsets))
            for k, offsets in ((5, [0, 2, 2]), (3, [0]), (7, [0, 1, 5]))
        ], {"k": 8, "b": 8}),
}  # fmt: skip


def appending(nodes: str, after: str, start: str = "", output: str = "float[m, 4] y") -> str:
    """A loop over rows with their sum, and a sequence that starts empty, or with ``h`` in it."""
    begin = f"s0 = SequenceConstruct ({start})" if start else "s0 = SequenceEmpty <dtype = 1> ()"
    return text(
        "float[k, 4] x, int64 n", output,
        f"h = Constant <value = float[4] {{1, 2, 3, 4}}> () {begin} " + loop(
            "all, sum", "n, true, s0, h", "seq(float[4]) s, float[4] g",
            "seq(float[4]) t, float[4] f",
            f"row = Gather (x, i) f = Add (g, row) {nodes}",
        ) + after,
    )  # fmt: skip


STACK = " y = ConcatFromSequence <axis = 0, new_axis = 1> (all)"

SEQUENCES: Mapping[str, Model] = {
    "appended": (appending("t = SequenceInsert (s, f)", STACK), rows(1, 3, 5), 8),
    "concatenated": (
        appending("t = SequenceInsert (s, f)", " y = ConcatFromSequence <axis = 0> (all)",
                  output="float[m] y"), rows(1, 3), 32),
    "inserted at the front": (appending("t = SequenceInsert (s, f, zero)", STACK), rows(1, 4), 8),
    "inserted at a dynamic index": (
        appending("t = SequenceInsert (s, f, i)", STACK, "h, h"), rows(0, 1, 4), 16),
    "two in each step": (
        appending("u = SequenceInsert (s, f) t = SequenceInsert (u, row)", STACK), rows(1, 5), 16),
    "after others": (appending("t = SequenceInsert (s, f)", STACK, "h, h"), rows(0, 1, 5), 16),
    "the last one read": (
        appending("l = SequenceAt (s, last) q = Add (l, f) t = SequenceInsert (s, q)", STACK, "h"),
        rows(0, 1, 5), 16),
    "one read at the index": (
        appending("l = SequenceAt (s, i) q = Add (l, f) t = SequenceInsert (s, q)", STACK, "h"),
        rows(0, 1, 5), 16),
    "its length read": (
        appending("""l = SequenceLength (s) c = Cast <to = 1> (l) q = Add (c, f)
                     t = SequenceInsert (s, q)""", STACK), rows(1, 5), 16),
    "joined inside": (
        appending("""c = ConcatFromSequence <axis = 0, new_axis = 1> (s)
                     q = ReduceMax <keepdims = 0> (c, at0) t = SequenceInsert (s, q)""",
                  STACK, "h"), rows(0, 5), 16),
    "the first one erased": (
        appending("""e = SequenceErase (s, zero) u = SequenceInsert (e, f)
                     t = SequenceInsert (u, row)""", STACK, "h, h"), rows(0, 1, 5), 16),
    "the last one erased": (
        appending("""u = SequenceInsert (s, f) e = SequenceErase (u)
                     t = SequenceInsert (e, row)""", STACK), rows(1, 5), 16),
    "read after the loop": (
        appending("t = SequenceInsert (s, f)",
                  """ a = SequenceAt (all, last) b = SequenceAt (all, zero) l = SequenceLength (all)
                     c = Cast <to = 1> (l) d = Mul (b, c) y = Add (a, d)""", output="float[4] y"),
        rows(1, 5), 8),
    "in both branches": (
        appending("""r = ReduceSum <keepdims = 0> (row) p = Greater (r, nothing)
                     t = If (p) <then_branch = yes () => (seq(float[4]) o) {
                       o = SequenceInsert (s, f)
                     }, else_branch = no () => (seq(float[4]) q) {
                       m = Neg (f) q = SequenceInsert (s, m) }>""", STACK), rows(1, 3, 5), 8),
    "in one of two branches": (
        appending("""r = ReduceSum <keepdims = 0> (row) p = Greater (r, nothing)
                     t = If (p) <then_branch = yes () => (seq(float[4]) o) {
                       o = SequenceInsert (s, f)
                     }, else_branch = no () => (seq(float[4]) q) { q = Identity (s) }>""",
                  STACK, "h"), rows(0, 1, 3, 5), 8),
    "mapped": (
        appending("t = SequenceInsert (s, f)",
                  """ u, v = SequenceMap (all, h) <body = each (float[4] a, float[4] b)
                     => (float[4] c, float[1] d) {
                       c = Mul (a, b) d = ReduceMax <keepdims = 1> (a) }>
                     uu = ConcatFromSequence <axis = 0, new_axis = 1> (u)
                     vv = ConcatFromSequence <axis = 0, new_axis = 1> (v) y = Add (uu, vv)"""),
        rows(1, 5), 8),
    "mapped with different shapes": (
        text("float[6, 4] x, float[4] w", "float[m, 4] y",
             """sizes = Constant <value = int64[3] {1, 3, 2}> ()
                s = SplitToSequence <axis = 0> (x, sizes)
                t = SequenceMap (s, w) <body = each (float[a, 4] v, float[4] u)
                => (float[a, 4] o) { o = Mul (v, u) }>
                y = ConcatFromSequence <axis = 0> (t)"""),
        lambda random: [(normal(random, 6, 4), normal(random, 4))], 0),
    "different shapes in steps that are written out": (
        text("float[6] x", "float[m] y",
             "n = Constant <value = int64 {3}> () s0 = SequenceEmpty <dtype = 1> () " + loop(
                 "all", "n, true, s0", "seq(float[a]) s", "seq(float[a]) t",
                 """k = Add (i, at1) v = Slice (x, at0, k) t = SequenceInsert (s, v)""")
             + " y = ConcatFromSequence <axis = 0> (all)"),
        lambda random: [(normal(random, 6),)], 0),
    "nested": (
        text("float[4] x, int64 n, int64 k", "float[m, 4] y",
             "s0 = SequenceEmpty <dtype = 1> () " + loop(
                 "all", "n, true, s0", "seq(float[4]) s", "seq(float[4]) t",
                 """t = Loop (k, true, s) <body = inner (int64 j, bool go2, seq(float[4]) s2)
                    => (bool going2, seq(float[4]) t2) { going2 = Identity (go2)
                    f = Cast <to = 1> (j) v = Mul (x, f) t2 = SequenceInsert (s2, v) }>""")
             + STACK),
        lambda random: [(normal(random, 4), n, k) for n, k in ((1, 1), (3, 2), (2, 3))], 16),
    "of a branch": (
        text("float[2, 4] x, bool c, int64 index", "float[m, 4] y, float[4] z, int64 l",
             """r = SplitToSequence <axis = 0, keepdims = 0> (x)
                s = If (c) <then_branch = yes () => (seq(float[4]) o) {
                  e = SequenceAt (r, zero) o = SequenceConstruct (e, e, e)
                }, else_branch = no () => (seq(float[4]) q) {
                  f = SequenceAt (r, one) g = Neg (f) q = SequenceConstruct (f, g, g) }>
                y = ConcatFromSequence <axis = 0, new_axis = 1> (s) z = SequenceAt (s, index)
                l = SequenceLength (s)"""),
        lambda random: [
            (normal(random, 2, 4), c, index) for c in (True, False) for index in (0, 2, -1, -3)
        ], 0),
    "an embedding bag": (
        text("float[9, 4] table, int64[k] x, int64[b] offsets", "float[b, 4] y",
             """shape = Shape (x) ends = Concat <axis = 0> (offsets, shape) bags = Shape (offsets)
                n = Gather (bags, zero) rows = Gather <axis = 0> (table, x)
                s0 = SequenceEmpty () """ + loop(
                    "all", "n, true, s0", "seq(float[?]) s", "seq(float[?]) t",
                    """b = Gather (ends, i) j = Add (i, one) e = Gather (ends, j) q = Equal (b, e)
                       t = If (q) <then_branch = yes () => (seq(float[?]) o) {
                         d = Shape <start = 1> (rows) r = Expand (nothing, d)
                         u = Unsqueeze (r, at0) o = SequenceInsert (s, u)
                       }, else_branch = no () => (seq(float[?]) p) {
                         b1 = Unsqueeze (b, at0) e1 = Unsqueeze (e, at0) c = Slice (rows, b1, e1)
                         r = ReduceSum <keepdims = 1> (c, at0) p = SequenceInsert (s, r) }>""")
             + " y = ConcatFromSequence <axis = 0> (all)"),
        lambda random: [
            (normal(random, 9, 4), random.integers(0, 9, k), np.array(offsets))
            for k, offsets in ((5, [0, 2, 2]), (3, [0]), (7, [0, 1, 5]))
        ], {"k": 8, "b": 8}),
}  # fmt: skip
MODELS = {**GROWING, **{f"sequence: {name}": each for name, each in SEQUENCES.items()}}


def proto_of(name: str) -> Any:
    """The model of a name."""
    return parsed(MODELS[name][0])


def feeds_of(name: str) -> list[list[np.ndarray]]:
    """Inputs for it."""
    random = np.random.default_rng(zlib.crc32(name.encode()))
    return [[np.asarray(each) for each in feed] for feed in MODELS[name][1](random)]


def session_of(proto: Any) -> Any:
    """A model in ONNX Runtime."""
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    return runtime.InferenceSession(proto.SerializeToString(), options)


def compare(run: Callable[..., Sequence[Any]], session: Any, feed: Sequence[np.ndarray]) -> None:
    """Compares a run of a model with that of ONNX Runtime."""
    names = [each.name for each in session.get_inputs()]
    expected = session.run(None, dict(zip(names, feed, strict=True)))
    for ours, theirs in zip(map(np.asarray, run(*feed)), expected, strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def check(run: Callable[..., Sequence[Any]], name: str) -> None:
    """Compares runs of a model with those of ONNX Runtime."""
    session = session_of(proto_of(name))
    for feed in feeds_of(name):
        compare(run, session, feed)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", MODELS)
def test_evaluated_as_by_onnx_runtime(name: str) -> None:
    model = tvm_nnef.convert(proto_of(name), bounds=MODELS[name][2])
    check(lambda *feed: tvm_nnef.evaluate(model, *feed), name)


@pytest.mark.slow
@pytest.mark.parametrize("route", ["mapped", "formula"])
@pytest.mark.parametrize("name", MODELS)
def test_compiled_as_by_onnx_runtime(name: str, route: Any) -> None:
    model = tvm_nnef.convert(proto_of(name), bounds=MODELS[name][2])
    check(tvm_nnef.build(model, progress=False, route=route), name)


def test_more_steps_than_are_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_flow, "_MOST_UNROLLED", 8)
    nodes = "n = Constant <value = int64 {5}> () " + loop(
        "y", "n, true, x", "int64[a] v", "int64[b] w",
        "p = Reshape (i, flat) q = Add (p, x) w = Concat <axis = 0> (q, v)",
    )  # fmt: skip
    model = tvm_nnef.convert(parsed(text("int64[1] x", "int64[m] y", nodes)))
    (found,) = tvm_nnef.evaluate(model, np.array([7]))
    np.testing.assert_array_equal(found, [11, 10, 9, 8, 7, 7])


GROWS = text("int64 n", "int64[m] y", loop(
    "y", "n, true, at1", "int64[a] v", "int64[b] w",
    "p = Reshape (i, flat) w = Concat <axis = 0> (v, p)",
))  # fmt: skip
EXCEEDED: Mapping[str, tuple[str, Any, Sequence[Any], str]] = {
    "a bound of the result": (GROWS, {"y": 4}, [4], r"grows to \[5\], beyond its bounds \[4\]"),
    "one bound for all": (GROWS, 4, [9], "beyond its bounds"),
    "two items in each step": (
        SEQUENCES["two in each step"][0], 8, [np.ones((5, 4)), 5], "beyond its bounds"),
    "the default": (GROWS, 0, [1025], r"beyond its bounds \[1025\]"),
    "an item after the last one": (
        SEQUENCES["of a branch"][0], 0, [np.ones((2, 4)), True, 3], "beyond"),
    "an item before the first one": (
        SEQUENCES["of a branch"][0], 0, [np.ones((2, 4)), True, -4], "beyond"),
    "an item that is not there yet": (
        SEQUENCES["one read at the index"][0].replace("(s, i)", "(s, one)"), 8,
        [np.ones((5, 4)), 1], "must be 1"),
    "an item of nothing": (SEQUENCES["read after the loop"][0], 8, [np.ones((5, 4)), 0], "no el"),
}  # fmt: skip


def parsed(source: str) -> Any:
    """A model from its text."""
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {source}')


@pytest.mark.parametrize("name", [name for name in EXCEEDED if name != "the default"])
def test_what_exceeds_a_bound_is_an_error_of_the_run(name: str) -> None:
    source, bounds, feed, message = EXCEEDED[name]
    model = tvm_nnef.convert(parsed(source), bounds=bounds)
    with pytest.raises(NnefError, match=message):
        tvm_nnef.evaluate(model, *prepared(feed))


@pytest.mark.slow
@pytest.mark.parametrize("name", EXCEEDED)
def test_what_exceeds_a_bound_is_an_error_of_the_compiled_run(name: str) -> None:
    source, bounds, feed, message = EXCEEDED[name]
    run = tvm_nnef.build(tvm_nnef.convert(parsed(source), bounds=bounds), progress=False)
    with pytest.raises(NnefError, match=message):
        run(*prepared(feed))


def prepared(feed: Sequence[Any]) -> list[np.ndarray]:
    """Inputs as arrays; reals are float32."""
    arrays = map(np.asarray, feed)
    return [each.astype(np.float32) if each.dtype.kind == "f" else each for each in arrays]


REFUSED: Mapping[str, tuple[str, Any, str]] = {
    "a bound below the start": (
        GROWS.replace("at1)", "three)").replace(
            "y =", "three = Constant <value = int64[3] {1, 2, 3}> () y =", 1),
        {"y": 2}, "the bound of 'y' is 2, and it starts with 3 elements"),
    "a rank that changes": (
        text("float[1] x, int64 n", "float y", loop(
            "y", "n, true, x", "float[a] v", "float[a] w", "w = Unsqueeze (v, at0)")),
        0, "it carries 'v' as float32"),
    "a scan output that changes": (
        text("float[1] x, int64 n", "float y", loop(
            "z, y", "n, true, x", "float[a] v", "float[b] w, float[b] u",
            "w = Concat <axis = 0> (v, x) u = Neg (v)")),
        0, "its scan output 'u' may change its shape"),
    "a state of a Scan that changes": (
        text("float[1] x, float[3, 1] z", "float y",
             """y = Scan <num_scan_inputs = 1, body = body (float[a] v, float[1] r)
                => (float[b] w) { w = Concat <axis = 0> (v, r) }> (x, z)"""),
        0, "it carries 'v' as"),
    "items of different shapes": (
        appending("u = SequenceInsert (s, f) r = Concat <axis = 0> (f, f) "
                  "t = SequenceInsert (u, r)", STACK), 8, "it puts together"),
    "a sequence as an output": (
        appending("t = SequenceInsert (s, f)", " y = Identity (all)", output="seq(float[4]) y"), 8,
        "the output 'y' is a sequence of tensors"),
    "a large buffer": (
        text("float[1024, 1024] x, int64 n", "float y", loop(
            "y", "n, true, x", "float[a, b] v", "float[c, b] w", "w = Concat <axis = 0> (v, x)")),
        0, "the buffer for 'y' would have 1074790400 elements"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    source, bounds, message = REFUSED[name]
    with pytest.raises(NnefError, match=message) as caught:
        tvm_nnef.convert(parsed(source), bounds=bounds)
    assert all(each.hint for each in caught.value.diagnostics)


def random_loop(random: np.random.Generator) -> tuple[str, int]:
    """A loop that carries up to three tensors, each of which changes in its way, as text.

    Returns the number of rows that they have in the end too, at most.
    """
    names, carried, made, nodes = [], [], [], []
    for position in range(int(random.integers(1, 4))):
        old, new, piece = f"v{position}", f"w{position}", f"p{position}"
        names.append(f"x{position}")
        rows = (
            "3"
            if (kind := random.choice(["front", "back", "both", "cut", "same"])) == "same"
            else "?"
        )
        carried.append(f"float[{rows}, 2] {old}")
        made.append(f"float[{rows}, 2] {new}")
        change = random.choice(["Sin", "Neg", "Abs"])
        reduce = random.choice(["ReduceMean", "ReduceMax", "ReduceSum"])
        axis_free = f"{piece} = {reduce} <keepdims = 1> ({old}, at0)"
        nodes.append({
            "front": f"{axis_free} {new} = Concat <axis = 0> ({piece}, {old})",
            "back": f"{axis_free} q{position} = {change} ({piece}) "
                    f"{new} = Concat <axis = -2> ({old}, q{position})",
            "both": f"{axis_free} {new} = Concat <axis = 0> ({piece}, {old}, {piece})",
            "cut": f"{new} = Slice ({old}, at1, far, at0)",
            "same": f"{piece} = {change} ({old}) {new} = Add ({piece}, fraction)",
        }[kind])  # fmt: skip
    nodes.append("f = Cast <to = 1> (i) u = ReduceSum <keepdims = 0> (w0) e = Add (u, f)")
    count = len(names)
    results = ", ".join([*(f"y{position}" for position in range(count)), "each"])
    body = loop(
        results, ", ".join(["n", "true", *names]), ", ".join(carried),
        ", ".join([*made, "float e"]), " ".join(nodes),
    )  # fmt: skip
    inputs = ", ".join(["int64 n", *(f"float[3, 2] {name}" for name in names)])
    outputs = ", ".join(
        [*(f"float[?, 2] y{position}" for position in range(count)), "float[?] each"]
    )
    fraction = "fraction = Constant <value = float {0.25}> () "
    return text(inputs, outputs, fraction + body), count


@pytest.mark.sampled(24)
@pytest.mark.parametrize("seed", range(24))
def test_random_loops(seed: int) -> None:
    random = np.random.default_rng(seed)
    source, count = random_loop(random)
    model, session = tvm_nnef.convert(parsed(source), bounds=16), session_of(parsed(source))
    runs: list[Callable[..., Sequence[Any]]] = [lambda *feed: tvm_nnef.evaluate(model, *feed)]
    if seed % 8 == 7:
        runs.append(tvm_nnef.build(model, progress=False))
    feeds = [
        [np.asarray(n), *(normal(random, 3, 2) for _ in range(count))] for n in (0, 1, 2, 3, 5)
    ]
    for run, feed in itertools.product(runs, feeds):
        compare(run, session, feed)


def test_loops_inside_of_loops_are_converted_a_few_times() -> None:
    nodes = "w0 = Concat <axis = 0> (v0, v0)"
    for depth in range(12):
        nodes = (
            f"w{depth + 1} = Loop (n, true, v{depth + 1}) <body = b{depth} (int64 i{depth}, "
            f"bool g{depth}, float[c{depth}] v{depth}) => (bool h{depth}, float[d{depth}] w{depth})"
            f" {{ h{depth} = Identity (g{depth}) {nodes} }}>"
        )
    source = text("float[2] v12, int64 n", "float[m] w12", nodes)
    begin = time.process_time()
    tvm_nnef.convert(parsed(source), bounds=64)
    assert time.process_time() - begin < 10
