"""What could be of either dialect is a warning if the two differ for values that occur."""

from __future__ import annotations

import pytest

import tvm_nnef

TEXT = """operator f {{
    @attrib {{ k: int; }}
    @input {{ x: real[b, s]; }}
    @output {{ y: real[b, s]; }}
    @assert {{ {} > 0; }}
    @lower {{ y[i, j] = x[i, {}], i < b, j < s; }}
}}
graph G {{ @input {{ x: real[2, 8]; }} @output {{ y: real; }} @compose {{ y = f{{k=1}}(x); }} }}
"""

SIGNS = {
    ("s / 2", "j"): "",
    ("(s + 3 * b) / (b + 2) % 7 \\ s", "j"): "",
    ("(s - 1) / 2", "j"): "/",
    ("s", "(0 - j) / 2 + j"): "/",
    ("s / k", "j"): "/",
    ("s", "2 * (j / 2) + j % 2"): "",
    ("s", "(j - 1) % s"): "%",
}
"""What is asserted, an index, and the signs of divisions whose operands may be negative."""


@pytest.mark.parametrize("case", SIGNS)
def test_divisions_that_depend_on_the_dialect(case: tuple[str, str]) -> None:
    found = tvm_nnef.check(TEXT.format(*case))
    assert "".join(each.message[1] for each in found) == SIGNS[case]
