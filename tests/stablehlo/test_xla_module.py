"""The module ``xla`` as a SkriptND model imports it: the numbers of XLA's semantics document."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_nnef

V = np.array(
    [[[10 * k + j for j in range(3)], [10 * k + 5 + j for j in range(3)]] for k in range(1, 5)]
)
A = np.array([[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]])
S = np.array([0.0, 1.0, 2.0, 3.0, 4.0])


def evaluated(call: str, *arrays: Any) -> Any:
    """What an invocation of an operator on x, and y and z, gives."""
    given = [np.asarray(each) for each in arrays]
    inputs = "".join(
        f"{name}: {'int' if each.dtype.kind == 'i' else 'real'}[{', '.join(map(str, each.shape))}];"
        for name, each in zip("xyz", given, strict=False)
    )
    kind = "int" if given[0].dtype.kind == "i" else "real"
    text = f"import xla;\ngraph G {{ @input {{ {inputs} }} @output {{ r: {kind}; }}\n"
    model = tvm_nnef.load_model(f"{text} @compose {{ r = xla.{call}; }} }}\n")
    types = {"i": np.int32, "f": np.float32}
    (found,) = tvm_nnef.evaluate(model, *(each.astype(types[each.dtype.kind]) for each in given))
    return found


R = "{dimensions=%s, sizes=%s}(x)"


@pytest.mark.parametrize(
    ("call", "arrays", "expected"),
    [
        ("broadcast{sizes=[2, 3]}(x)", [np.array(2.0)], np.full((2, 3), 2.0)),
        ("collapse{first=0, last=2}(x)", [V], V.reshape(24)),
        ("collapse{first=0, last=1}(x)", [V], [[*range(10, 13)], [*range(15, 18)], [*range(20, 23)],
         [*range(25, 28)], [*range(30, 33)], [*range(35, 38)], [*range(40, 43)], [*range(45, 48)]]),
        ("collapse{first=1, last=2}(x)", [V], [[10, 11, 12, 15, 16, 17], [20, 21, 22, 25, 26, 27],
         [30, 31, 32, 35, 36, 37], [40, 41, 42, 45, 46, 47]]),
        (f"reshape{R % ('[0, 1, 2]', '[24]')}", [V], V.reshape(24)),
        (f"reshape{R % ('[1, 2, 0]', '[24]')}", [V],
         [10, 20, 30, 40, 11, 21, 31, 41, 12, 22, 32, 42,
         15, 25, 35, 45, 16, 26, 36, 46, 17, 27, 37, 47]),
        (f"reshape{R % ('[1, 2, 0]', '[3, 8]')}", [V], [[10, 20, 30, 40, 11, 21, 31, 41],
         [12, 22, 32, 42, 15, 25, 35, 45], [16, 26, 36, 46, 17, 27, 37, 47]]),
        (f"reshape{R % ('[1, 2, 0]', '[2, 6, 2]')}", [V], [[[10, 20], [30, 40], [11, 21], [31, 41],
         [12, 22], [32, 42]], [[15, 25], [35, 45], [16, 26], [36, 46], [17, 27], [37, 47]]]),
        ("rev{dimensions=[0]}(x)", [np.array([1, 2, 3])], [3, 2, 1]),
        ("dynamic_slice{sizes=[2]}(x, y)", [S, np.array([2])], [2.0, 3.0]),
        ("dynamic_slice{sizes=[2, 2]}(x, y)", [A, np.array([2, 1])], [[7, 8], [10, 11]]),
        ("dynamic_update_slice(x, y, z)", [S, np.array([5.0, 6.0]), np.array([2])],
         [0.0, 1.0, 5.0, 6.0, 4.0]),
        ("dynamic_update_slice(x, y, z)",
         [A, np.array([[12, 13], [14, 15], [16, 17]]), np.array([1, 1])],
         [[0, 1, 2], [3, 12, 13], [6, 14, 15], [9, 16, 17]]),
    ],
)  # fmt: skip
def test_examples_of_the_document(call: str, arrays: Any, expected: Any) -> None:
    np.testing.assert_array_equal(evaluated(call, *arrays), np.asarray(expected))


def test_padding_between_elements_and_negative_padding() -> None:
    found = evaluated(
        "pad{low=[1, -1], high=[-1, 2], interior=[2, 0]}(x, y)", A.astype(float), np.array(7.0)
    )
    wide = np.full((10, 3), 7.0)
    wide[::3] = A
    np.testing.assert_array_equal(found, np.pad(wide[:-1, 1:], ((1, 0), (0, 2)), constant_values=7))
