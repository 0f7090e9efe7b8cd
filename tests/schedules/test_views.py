"""Reshapes that split or join dynamic dimensions are views: no kernel, and no memory is lost."""

from __future__ import annotations

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef import NnefError

WINDOWS = """import layout, math;
graph G {
  @input { x: real[n|4, h|64, v|64, 3]; }
  @output { y: real[~, ~, ~, ~, ~, ~]; }
  @compose {
    a = layout.reshape{shape=[n, h / 4, 4, v / 2, 2, 3]}(x);
    b = layout.transpose{perm=[0,1,3,2,4,5]}(a);
    y = math.mul(b, 2.0);
  }
}
"""

EDGES = """import layout, math;
graph G {
  @input { x: real[n|64, h|64]; }
  @output { y: real[~]; z: real[~, ~]; }
  @compose {
    y = layout.reshape{shape=[n * h]}(x);
    w = math.add(y, 1.0);
    z = layout.reshape{shape=[h, n]}(w);
  }
}
"""


def test_a_reshape_of_dynamic_dimensions_is_not_a_kernel(tmp_path):
    executable = tvm_nnef.build(WINDOWS, progress=False, dump_dir=tmp_path)
    assert "reshape" not in (tmp_path / "kernels.txt").read_text()
    for n, h, v in ((1, 4, 2), (3, 12, 14), (2, 64, 62)):
        x = np.random.default_rng(h).standard_normal((n, h, v, 3)).astype("float32")
        expected = x.reshape(n, h // 4, 4, v // 2, 2, 3).transpose(0, 1, 3, 2, 4, 5) * 2
        np.testing.assert_array_equal(executable(x)[0], expected)
    for _ in range(2):
        with pytest.raises(NnefError, match="volume"):
            executable(np.zeros((1, 6, 2, 3), "float32"))


def test_views_at_the_edges_keep_what_others_write():
    executable = tvm_nnef.build(EDGES, progress=False)
    first = np.arange(12, dtype="float32").reshape(3, 4)
    y, z = executable(first)
    first[:] = -1
    second = np.ones((5, 2), "float32")
    executable(second)
    np.testing.assert_array_equal(y, np.arange(12))
    np.testing.assert_array_equal(z, np.arange(1, 13).reshape(4, 3))
