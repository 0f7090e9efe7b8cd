"""Slices are written to the memory of a variable, unless something else sees that memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.executable.call_memory import needed_bytes

TEXT = """
import math, layout;

operator put {{
    @input {{ past: real[n, d]; new: real[1, d]; where: int[]; }}
    @output {{ y: real[n, d]; }}
    @lower {{
        y[ni, di] = past[ni, di],
            ni < n, di < d;
        y[where[], di] := new[0, di],
            di < d;
    }}
}}

graph G {{
    @input {{ x: real[1, 4]; n: int[]; }}
    @output {{ y: real[{shape}]; }}
    @variable {{ cache: real[8, 4]; }}
    @compose {{
        new = put(cache, x, n);
        {body}
    }}
    @update {{ cache = math.iden(new); }}
}}
"""

CASES = {
    "a sum of the new value": ("1, 1", "y = math.sum_reduce{axes=[0, 1]}(new);", True),
    "the new value itself": ("8, 4", "y = math.iden(new);", False),
    "a view of the new value": ("4, 8", "y = layout.reshape{shape=[4, 8]}(new);", False),
    "the old value too": ("8, 4", "y = math.add(new, cache);", False),
    "a flat view of the new value": ("8, 4", "y = layout.flatten{axis=1}(new);", False),
    "a flat view of the old value": (
        *("8, 4", "z = layout.flatten{axis=1}(cache); y = math.add(new, z);"),
        False,
    ),
    "a copy of the old value": ("8, 4", "z = math.iden(cache); y = math.add(new, z);", False),
}


def address(executable: Any) -> int:
    """Where the cache is."""
    return int(np.from_dlpack(executable.state.tensors[0]).ctypes.data)


@pytest.mark.parametrize("name", CASES)
def test_a_slice_is_written_where_it_is_unless_others_see_it(name: str) -> None:
    shape, body, in_place = CASES[name]
    rows = np.zeros((8, 4), np.float32)
    text = TEXT.format(shape=shape, body=body)
    model = tvm_nnef.load_model(text, variables={"main.G.cache": rows})
    executable = tvm_nnef.build(model, progress=False)
    held = executable.state.tensors[0]  # Nothing else gets its memory.
    start = address(executable)
    for number in (2, 0, 7):
        x, where = np.full((1, 4), number + 1, np.float32), np.array(number)
        model = tvm_nnef.load_model(text, variables={"main.G.cache": rows})
        np.testing.assert_allclose(executable(x, where)[0], tvm_nnef.evaluate(model, x, where)[0])
        rows = rows.copy()
        rows[number] = number + 1
        np.testing.assert_array_equal(executable.state["main.G.cache"], rows)
    assert (address(executable) == start) is in_place
    del held
    executable.reset()
    assert not executable.state["main.G.cache"].any()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_elements_that_are_only_moved_may_be_of_half_precision(dtype: str) -> None:
    text = TEXT.format(shape="1, 1", body=CASES["a sum of the new value"][1])
    model = tvm_nnef.load_model(text, variables={"main.G.cache": np.zeros((8, 4), np.float32)})
    executable = tvm_nnef.build(model, dtypes={"real": dtype}, progress=False)
    for count, number in enumerate((2, 0, 7), 1):
        (found,) = executable(np.full((1, 4), 0.5, np.float32), np.array(number))
        assert float(found[0, 0]) == 2 * count
    assert needed_bytes(executable.metadata["memory"], {}) == 2  # The sum alone.


SHARED = """
import math;
operator turned {
    @input { x: real[1, d]; where: int[1]; }
    @output { y: real[1, d]; }
    @lower { y[0, di] = x[0, di] * real(where[0,]), di < d; }
}
operator put {
    @input { past: real[n, d]; new: real[1, d]; where: int[1]; }
    @output { y: real[n, d]; }
    @lower {
        y[ni, di] = past[ni, di],
            ni < n, di < d;
        y[where[0,] % n, di] := new[0, di],
            di < d;
    }
}
graph G {
    @input { x: real[1, 4]; }
    @output { y: real[1, 4]; }
    @variable { cache: real[3, 4]; step: int[1]; }
    @compose {
        row = turned(x, step);
        new = put(cache, row, step);
        y = math.sum_reduce{axes=[0]}(new);
        next = math.add(step, 1);
    }
    @update { cache = new; step = next; }
}
"""


def test_the_position_of_a_slice_may_be_a_variable_that_others_read() -> None:
    state = {"main.G.cache": np.zeros((3, 4), np.float32), "main.G.step": np.ones(1, np.int32)}
    executable = tvm_nnef.build(tvm_nnef.load_model(SHARED, variables=state), progress=False)
    x, rows = np.arange(4, dtype=np.float32)[None], np.zeros((3, 4), np.float32)
    for step in range(1, 6):
        rows[step % 3] = x * step
        np.testing.assert_array_equal(executable(x)[0], rows.sum(0, keepdims=True))
