"""Equal invocations: their formula is expanded once, and each reads and writes its own tensors."""

from __future__ import annotations

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.composition import expansions

TEXT = """
    operator shifted {
        @attrib { by: real; from: int = 0; }
        @input { x: real[n]; }
        @output { y: real[n]; }
        @lower { y[i,] = x[|i - from|,] * real(by), i < n; }
    }
    graph G {
        @input { a: real[3]; b: real[3]; c: real[4]; }
        @output { p: real[3]; q: real[3]; r: real[4]; s: real[3]; t: real[3]; }
        @compose {
            p = shifted{by=2.0}(a);
            q = shifted{by=2.0}(b);
            r = shifted{by=2.0}(c);
            s = shifted{by=-0.0}(b);
            t = shifted{by=0.0}(b);
        }
    }
"""


def test_equal_invocations_are_expanded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of another shape and other values, however equal, are not."""
    expanded, original = [], expansions.expand

    def counting(*given):
        expanded.append(given)
        return original(*given)

    monkeypatch.setattr(expansions, "expand", counting)
    arrays = [np.arange(1, 1 + size, dtype="float32") for size in (3, 3, 4)]
    arrays[1] += 5
    p, q, r, s, t = tvm_nnef.evaluate(TEXT, *arrays)
    assert len(expanded) == 4
    for found, given in ((p, arrays[0]), (q, arrays[1]), (r, arrays[2])):
        np.testing.assert_array_equal(found, 2 * given)
    assert np.signbit(s).all()
    assert not np.signbit(t).any()


HELPERS = """
    operator doubled {
        @attrib { most: int; }
        @input { x: real[n]; }
        @using { k = 2 * n; }
        @assert { k <= most: "too long"; }
        @output { y: real[k]; }
        @lower { y[i,] = x[i % n,], i < k; }
    }
    graph G {
        @input { a: real[3]; b: real[3]; c: real[4]; }
        @output { p: real[6]; q: real[6]; r: real[8]; }
        @compose {
            p = doubled{most=7}(a);
            q = doubled{most=7}(b);
            r = doubled{most=MOST}(c);
        }
    }
"""


def test_helpers_of_equal_invocations_are_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assertions on other shapes are checked."""
    evaluated, original = [], expansions.run_helpers

    def counting(*given):
        evaluated.append(given)
        return original(*given)

    monkeypatch.setattr(expansions, "run_helpers", counting)
    arrays = [np.arange(size, dtype="float32") for size in (3, 3, 4)]
    results = tvm_nnef.evaluate(HELPERS.replace("MOST", "8"), *arrays)
    assert len(evaluated) == 2
    for found, given in zip(results, arrays, strict=True):
        np.testing.assert_array_equal(found, np.tile(given, 2))
    with pytest.raises(tvm_nnef.NnefError, match="too long"):
        tvm_nnef.evaluate(HELPERS.replace("MOST", "7"), *arrays)
