"""The CUDA that is generated, compiled for the CPU: threads run one after the other.

Simulated kernels (``test_simulated.py``) are loops before TVM binds them; what its passes make of
the indices of threads is seen here.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.compilation.passes import run_phases
from tvm_nnef.compilation.target import resolve

INDICES = {
    "(j % 4 + 3) / 4": lambda i, j: (j % 4 + 3) // 4,
    "(7 + j) / 2": lambda i, j: (7 + j) // 2,
    "(31 - j) % 16": lambda i, j: (31 - j) % 16,
    "(5 - j) % 8": lambda i, j: (5 - j) % 8,
    "(i - j) % 16": lambda i, j: (i - j) % 16,
    "(2 * i - j + 3) % 7": lambda i, j: (2 * i - j + 3) % 7,
    "(j % 4 + i % 3) / 2": lambda i, j: (j % 4 + i % 3) // 2,
    "(j / 4 + 3 * i) % 5": lambda i, j: (j // 4 + 3 * i) % 5,
    "(j + 5) / 3": lambda i, j: (j + 5) // 3,
}
"""Columns of a matrix of 16 columns, for i and j in [0, 8) and [0, 16)."""

GRID = """
#include <cstdint>
struct Index {{ int x = 0, y = 0, z = 0; }};
struct uint2 {{ unsigned x, y; }};
struct uint4 {{ unsigned x, y, z, w; }};
typedef unsigned uint;
static Index threadIdx, blockIdx;
#define __device__
#define __forceinline__ inline
#define __global__
#define __launch_bounds__(...)
{source}
extern "C" void launch(int blocks, int threads, {element}* x, {element}* y) {{
  for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x)
    for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x)
      {kernel}({arguments});
}}
"""

ELEMENTS = {"float32": "float", "int32": "int", "int64": "int64_t"}
"""Types in C by dtype."""

WRAPPED = {
    "t = math.add(x, 1); c = math.gt(t, x); y = math.select(c, x, t);":
        lambda x, one: np.where(x + one > x, x, x + one),
    "t = math.neg(x); c = math.gt(t, 0); y = math.select(c, t, x);":
        lambda x, one: np.where(-x > 0, -x, x),
    "t = math.mul(x, 4); c = math.eq(t, 0); y = math.select(c, x, t);":
        lambda x, one: np.where(x * (4 * one) == 0, x, x * (4 * one)),
    "t = math.sub(x, 7); y = math.sign(t);": lambda x, one: np.sign(x - 7 * one),
}  # fmt: skip
"""Operators that are fused, and the same in NumPy."""

COMPILER = shutil.which("g++") or shutil.which("c++")


@pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")
@pytest.mark.parametrize("column", INDICES)
def test_indices_of_threads(column: str, tmp_path: Path) -> None:
    text = (
        "operator f { @input { x: real[n,m]; } @output { y: real[n,m]; } "
        f"@lower {{ y[i,j] = x[0, {column}], i < n, j < m; }} }}"
        "graph G { @input { x: real[8, 16]; } @output { y: real[8, 16]; } @compose { y = f(x); } }"
    )
    source = source_of(text)
    x = np.arange(128, dtype="float32").reshape(8, 16)
    i, j = np.indices(x.shape)
    np.testing.assert_array_equal(launched(source, x, tmp_path), x[0, INDICES[column](i, j)])


@pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")
@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("steps", WRAPPED)
def test_elements_wrap_around(steps: str, dtype: str, tmp_path: Path) -> None:
    """A compiler takes ints with a sign not to overflow."""
    limits = np.iinfo(dtype)
    x = np.array([limits.min, limits.min + 1, -7, -1, 0, 1, 9, 1 << 30, limits.max], dtype)
    graph = f"@input {{ x: int[9]; }} @output {{ y: int[9]; }} @compose {{ {steps} }}"
    source = source_of(f"import math; graph G {{ {graph} }}", dtypes={"int": dtype})
    with np.errstate(over="ignore"):
        expected = WRAPPED[steps](x, limits.dtype.type(1))
    np.testing.assert_array_equal(launched(source, x, tmp_path), expected)


def test_the_largest_number_without_a_sign_is_written() -> None:
    text = "import math; graph G { @input { x: int[9]; } @output { y: int[]; } @compose { y ="
    text += " math.min_reduce{axes=[0], squeeze=true}(x); } }"
    assert "uint64_t" in source_of(text, dtypes={"int": "uint64"})


def source_of(text: str, **options: Any) -> str:
    """The CUDA source of a model."""
    target = resolve({"kind": "cuda", "arch": "sm_80"})
    library = run_phases(tvm_nnef.from_nnef(text, **options), target, "bind", "code")
    (device,) = library.mod.imports[0].imports
    return str(device.inspect_source())


def launched(source: str, x: Any, folder: Path) -> Any:
    """What the only kernel of a source computes of an array, of its shape."""
    helpers = re.findall(r"^__device__ __forceinline__ void copy_\w+\(.*$", source, re.MULTILINE)
    definition = source[source.rindex('extern "C" __global__') :]
    signature = re.search(r"__launch_bounds__\((\d+), 1\) (\w+)\((.*?)\) \{", definition)
    assert signature is not None
    threads, kernel, parameters = signature.groups()
    names = re.findall(r"(\w+)_ptr", parameters)
    arguments = ", ".join("x" if name.startswith("x") else "y" for name in names)
    file = folder / "kernel.cpp"
    file.write_text(
        GRID.format(
            source="\n".join([*helpers, definition.replace("__restrict__", "")]),
            element=ELEMENTS[str(x.dtype)],
            kernel=kernel,
            arguments=arguments,
        )
    )
    library = folder / "kernel.so"
    command = [COMPILER, "-O2", "-fno-strict-aliasing", "-shared", "-fPIC"]
    subprocess.run([*command, file, "-o", library], check=True)
    y = np.zeros_like(x)
    pointers = [ctypes.c_void_p(each.ctypes.data) for each in (x, y)]
    blocks = -(-x.size // int(threads))
    ctypes.CDLL(str(library)).launch(blocks, int(threads), *pointers)
    return y
