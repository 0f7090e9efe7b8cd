"""Formulas that random ones have found to go wrong, and that are not mended yet."""

from __future__ import annotations

import pytest

import tvm_nnef

TEXT = """
operator f {
    @input { a: real[3,2,17,9,3]; b: real[9,1,3,3,1]; }
    @output { y: real[9,2,1,5]; }
    @lower {
        y[c,n,z,i] += a[k,n,3 * i + 2 * j,c,c / 3] * b[c,z,k,j,m],
            c < 9, n < 2, z < 1, i < 5, k < 3, j < 3, m < 1;
    }
}
graph G {
    @input { a: real[3,2,17,9,3]; b: real[9,1,3,3,1]; }
    @output { y: real[9,2,1,5]; }
    @compose { y = f(a, b); }
}
"""


@pytest.mark.slow
@pytest.mark.xfail(raises=ValueError, reason="two indices of groups are taken for a convolution's")
def test_an_index_that_two_dimensions_share_is_not_a_group() -> None:
    tvm_nnef.build(TEXT, route="formula", progress=False)
