"""Models can be pickled and copied, as processes that build or check them in parallel need."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef

DIGITS = Path(__file__).resolve().parents[1] / "docs" / "examples" / "digits"
TOOLS = """# dialect: tools
import library, math;
graph G {
    @input { x: real[3]; }
    @output { y: real[3]; }
    @variable { w: real[3]; }
    @compose { h = math.mul(x, w); y = library.half(h); }
}
"""
LIBRARY = """
operator half {
    @input { x: real[n]; }
    @output { y: real[n]; }
    @lower { y[i] = x[i] / 2.0, i < n; }
}
"""


@pytest.mark.parametrize(
    "copied", [lambda x: pickle.loads(pickle.dumps(x)), copy.deepcopy, copy.copy]
)
def test_a_copy_is_an_equal_model(copied: Callable[[Any], Any], tmp_path: Path) -> None:
    (tmp_path / "library.sknd").write_text(LIBRARY)
    (tmp_path / "main.sknd").write_text(TOOLS)
    w, x = np.array([1, 2, 3], np.float32), np.full(3, 4, np.float32)
    model = tvm_nnef.load_model(tmp_path, variables={"main.G.w": w})
    found = copied(model)
    assert (repr(found), found.dialect) == (repr(model), "tools")
    np.testing.assert_array_equal(tvm_nnef.evaluate(found, x)[0], [2, 4, 6])


def test_metadata_and_files_are_kept() -> None:
    model = tvm_nnef.load_model(DIGITS)
    found = pickle.loads(pickle.dumps(model))
    assert found.metadata == model.metadata
    assert sorted(found.variables) == sorted(model.variables)
    assert tvm_nnef.check(found) == []
    names = "labels", "inputs", "outputs", "graphs", "dtypes"
    assert all(getattr(found, each) == getattr(model, each) for each in names)
