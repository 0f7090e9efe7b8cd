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
struct Index {{ int x = 0, y = 0, z = 0; }};
static Index threadIdx, blockIdx;
#define __global__
#define __launch_bounds__(...)
{source}
extern "C" void launch(int blocks, int threads, float* x, float* y) {{
  for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x)
    for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x)
      {kernel}({arguments});
}}
"""

COMPILER = shutil.which("g++") or shutil.which("c++")


@pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")
@pytest.mark.parametrize("column", INDICES)
def test_indices_of_threads(column: str, tmp_path: Path) -> None:
    text = (
        "operator f { @input { x: real[n,m]; } @output { y: real[n,m]; } "
        f"@lower {{ y[i,j] = x[0, {column}], i < n, j < m; }} }}"
        "graph G { @input { x: real[8, 16]; } @output { y: real[8, 16]; } @compose { y = f(x); } }"
    )
    target = resolve({"kind": "cuda", "arch": "sm_80"})
    library = run_phases(tvm_nnef.from_nnef(text), target, "bind", "code")
    (device,) = library.mod.imports[0].imports
    x = np.arange(128, dtype="float32").reshape(8, 16)
    i, j = np.indices(x.shape)
    np.testing.assert_array_equal(
        launched(device.inspect_source(), x, tmp_path), x[0, INDICES[column](i, j)]
    )


def launched(source: str, x: Any, folder: Path) -> Any:
    """What the only kernel of a source computes of an array, of its shape."""
    definition = source[source.rindex('extern "C" __global__') :]
    signature = re.search(r"__launch_bounds__\((\d+), 1\) (\w+)\((.*?)\) \{", definition)
    assert signature is not None
    threads, kernel, parameters = signature.groups()
    names = re.findall(r"(\w+)_ptr", parameters)
    arguments = ", ".join("x" if name.startswith("x") else "y" for name in names)
    file = folder / "kernel.cpp"
    file.write_text(
        GRID.format(
            source=definition.replace("__restrict__", ""), kernel=kernel, arguments=arguments
        )
    )
    library = folder / "kernel.so"
    subprocess.run([COMPILER, "-O1", "-shared", "-fPIC", file, "-o", library], check=True)
    y = np.zeros_like(x)
    pointers = [each.ctypes.data_as(ctypes.POINTER(ctypes.c_float)) for each in (x, y)]
    blocks = -(-x.size // int(threads))
    ctypes.CDLL(str(library)).launch(blocks, int(threads), *pointers)
    return y
