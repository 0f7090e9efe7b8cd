"""An empty pack keeps the type of its items, from which generic types are deduced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_nnef

OPERATORS = """
operator f { @dtype { T: arith; } @attrib { v: T..(n); } @output { y: T[2]; m: int[]; }
    @constant { k: T[2] = T(3.7); c: int[] = n; } @compose { y = k; m = c; } }
operator one { @dtype { T: arith; } @attrib { v: T; } @output { y: T[2]; }
    @constant { k: T[2] = v; } @compose { y = k; } }
operator defaulted { @dtype { T: arith = real; } @attrib { v: T..; } @output { y: T[2]; }
    @constant { k: T[2] = T(3.7); } @compose { y = k; } }
operator outer { @dtype { S: arith; } @attrib { w: S..; } @output { y: S[2]; }
    @compose { y, ~ = f{v=w[:0]}(); } }
operator packed { @dtype { T: arith; } @input { xs: T[2]..(n); } @output { y: T[2]; m: int[]; }
    @constant { k: T[2] = T(3.7); c: int[] = n; } @compose { y = k; m = c; } }
"""
REAL, INT, BOOL = np.full(2, 3.7, np.float32), np.full(2, 3, np.int32), np.full(2, True)


def model(using: str, call: str, expected: Any, targets: str) -> str:
    kind = {"f": "real", "i": "int", "b": "bool"}[expected.dtype.kind]
    return (
        f"{OPERATORS} graph G {{ @input {{ x: {kind}[2]..(1); }} @output {{ y: {kind}[2]; }} "
        f"@using {{ {using} }} @compose {{ {targets} = {call}; }} }}\n"
    )


@pytest.mark.parametrize("route", ["reference", "mapped"])
@pytest.mark.parametrize(("using", "call", "expected"), [
    ("v = [5 ..(0)];", "f{v=v}()", INT),
    ("v = [5.0 ..(0)];", "f{v=v}()", REAL),
    ("v = [true ..(0)];", "f{v=v}()", BOOL),
    ("v = [5 ..(false)];", "f{v=v}()", INT),
    ("", "f{v=[5 ..(0)]}()", INT),
    ("u = [1.0, 2.0]; v = u[2:];", "f{v=v}()", REAL),
    ("u = [1.0, 2.0]; v = u[u > 3.0];", "f{v=v}()", REAL),
    ("u = [1, 2]; v = [u[0:0].., 2:1];", "f{v=v}()", INT),
    ("u = [1, 2]; v = real(u[0:0]) * 2.0;", "f{v=v}()", REAL),
    ("u = [1, 2]; v = u[0:0] > 0;", "f{v=v}()", BOOL),
    ("u = [1, 2]; v = u[0:0] + ...;", "f{v=v}()", INT),
    ("b = false; v = b ? [1.0] : [2.0 ..(0)];", "f{v=v}()", REAL),
    ("", "packed(x[1:])", REAL),
    ("", "packed(x[1:])", INT),
])  # fmt: skip
def test_the_type_is_deduced(using: str, call: str, expected: Any, route: str) -> None:
    text = model(using, call, expected, "y, ~")
    x = [np.zeros(2, expected.dtype)]
    exe = tvm_nnef.build(text, progress=False) if route == "mapped" else None
    (found,) = exe(x) if exe else tvm_nnef.evaluate(text, x)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("using", "call", "expected"), [
    ("", "outer{w=[1.0]}()", REAL),
    ("", "outer{w=[1]}()", INT),
    ("", "defaulted{v=[1 ..(0)]}()", INT),
    ("", "defaulted{v=[]}()", REAL),
    # the sum and the product of no items
    ("u = [1.0]; v = u[0:0] + ..;", "one{v=v}()", np.zeros(2, np.float32)),
    ("u = [1.0]; v = u[0:0] * ..;", "one{v=v}()", np.ones(2, np.float32)),
])  # fmt: skip
def test_the_type_of_one_result(using: str, call: str, expected: Any) -> None:
    text = model(using, call, expected, "y")
    (found,) = tvm_nnef.evaluate(text, [np.zeros(2, expected.dtype)])
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == expected.dtype


@pytest.mark.parametrize(("using", "call", "words"), [
    ("v = [];", "f{v=v}()", "type 'T' cannot be deduced"),
    ("v = [5 ..(0)];", "f<real>{v=v}()", "attribute 'v' of 'f' must be real, not int"),
    ("v = ['a' ..(0)];", "f{v=v}()", "attribute 'v' of 'f' must be int or real or bool, not str"),
])  # fmt: skip
def test_wrong_types(using: str, call: str, words: str) -> None:
    found = tvm_nnef.check(model(using, call, REAL, "y, ~"))
    assert any(words in each.message for each in found), found
