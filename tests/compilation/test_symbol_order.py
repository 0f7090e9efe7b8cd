"""Symbols that kernels take as parameters: in one order in each process, and given to them so."""

from __future__ import annotations

import numpy as np
from tvm import tirx

import tvm_nnef
from tvm_nnef.compilation.passes import run_phases
from tvm_nnef.compilation.target import resolve
from tvm_nnef.tvm_support.compat import is_scalar, prim_functions
from tvm_nnef.tvm_support.lowering import is_host_function

TEXT = """
    import nn, layout;
    graph G {
        @input { x: real[v|4, u|5, t|6, s|7]; }
        @output { y: real[~, ~, ~, ~]; }
        @compose {
            p = layout.pad{padding=[1, 2, 0, 1, 1, 0, 1, 0]}(x);
            y = nn.softmax{axes=[1]}(p);
        }
    }
"""


def test_symbols_of_kernels_are_sorted() -> None:
    """TVM would order them by the addresses of objects."""
    mod = run_phases(tvm_nnef.from_nnef(TEXT), resolve("native"), "bind", "fuse")
    found = [
        [str(each.name) for each in function.params if is_scalar(each)]
        for function in prim_functions(mod).values()
    ]
    assert max(map(len, found)) == 4
    assert found == [sorted(names) for names in found]


def test_kernels_get_the_right_values() -> None:
    executable = tvm_nnef.build(TEXT, progress=False, cache=False)
    for shape in [(1, 2, 3, 4), (4, 5, 6, 7), (4, 1, 2, 1)]:
        x = np.random.default_rng(0).random(shape, "float32")
        exponentials = np.exp(np.pad(x, [(1, 1), (2, 0), (0, 1), (1, 0)]))
        expected = exponentials / exponentials.sum(1, keepdims=True)
        np.testing.assert_allclose(executable(x)[0], expected, rtol=1e-5)


def test_sizes_are_stored_in_order() -> None:
    """TVM would store them in another order in each process: libraries would not be equal."""
    mod = run_phases(tvm_nnef.from_nnef(TEXT), resolve("native"), "bind", "bytecode")
    found = [
        [int(store.indices[0]) for store in function.body.seq]
        for function in prim_functions(mod).values()
        if is_host_function(function) and isinstance(function.body, tirx.SeqStmt)
    ]
    assert max(map(len, found)) > 2
    assert found == [sorted(places) for places in found]
