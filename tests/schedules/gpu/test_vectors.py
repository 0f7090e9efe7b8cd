"""Elements that a thread of CUDA loads and stores as vectors: simulated, against NumPy."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.compilation.passes import run_phases
from tvm_nnef.compilation.target import resolve

pytestmark = pytest.mark.sampled(3)

CUDA = {"kind": "cuda", "arch": "sm_90a"}

TYPES = {"int8": ("int", "int8"), "float16": ("real", "float16"), "float32": ("real", "float32")}
"""The type of NNEF and the dtype of the inputs."""

CASES = {
    "the same sizes": ("{0}[4,6,16]", "{0}[4,6,16]", 16),
    "a row for all": ("{0}[3,5,32]", "{0}[32]", 16),
    "an element for each row": ("{0}[3,5,32]", "{0}[3,5,1]", 16),
    "a scalar": ("{0}[3,5,31]", "{0}[]", 16),
    "an odd number": ("{0}[3,5,7]", "{0}[3,5,7]", 16),
    "odd rows": ("{0}[3,5,7]", "{0}[7]", 0),
    "a dynamic number": ("{0}[n|9,m|16]", "{0}[n|9,m|16]", 16),
    "dynamic rows": ("{0}[n|9,m|16]", "{0}[m|16]", 0),
    "rows of a dynamic number": ("{0}[n|9,32]", "{0}[32]", 16),
}
"""Shapes of two inputs, and the bytes that a thread copies at once."""


def graph(inputs: str, output: str, body: str) -> str:
    blocks = f"@input {{ {inputs} }} @output {{ y: {output}; }} @compose {{ {body}; }}"
    return f"import math; import nn; import layout; graph G {{ {blocks} }}"


def source(text: str, **dtypes: str) -> str:
    """The CUDA source of a graph."""
    module = tvm_nnef.from_nnef(text, dtypes=dtypes)
    code = run_phases(module, resolve(CUDA), "bind", "code")
    return str(code.mod.imports[0].imports[0].inspect_source())


def copies(text: str, **dtypes: str) -> list[int]:
    """The bytes of each vector that is loaded or stored."""
    return [
        int(size) for size in re.findall(r"^ +copy_(\d+)_bytes\(", source(text, **dtypes), re.M)
    ]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", CASES)
def test_operands_of_any_sizes(name: str, dtype: str, simulated_gpu: Any) -> None:
    kind, machine_type = TYPES[dtype]
    first, second, size = CASES[name]
    shapes = [each.format(kind) for each in (first, second)]
    rank = ",".join("~" * len(first.split(",")))
    text = graph(
        f"a: {shapes[0]}; b: {shapes[1]};",
        f"{kind}[{rank}]",
        "t = math.add(a, b); y = math.max(t, b)",
    )
    assert set(copies(text, **{kind: machine_type})) == ({size} if size else set())
    simulated_gpu("sm_90a", reverse=True)
    executable = tvm_nnef.build(text, progress=False, dtypes={kind: machine_type})
    for sizes in ({"n": 3, "m": 11}, {"n": 1, "m": 1}, {"n": 4, "m": 8}):
        generator = np.random.default_rng(0)
        a, b = (_values(shape, sizes, dtype, generator) for shape in shapes)
        wide = [each.astype("float64") for each in (a, b)]
        (found,) = executable(a, b)
        np.testing.assert_allclose(
            np.asarray(found, "float64"), np.maximum(wide[0] + wide[1], wide[1]), 1e-3
        )


def _values(shape: str, sizes: dict[str, int], dtype: str, generator: Any) -> Any:
    inner = shape[shape.index("[") + 1 : -1]
    extents = [sizes.get(each.split("|")[0]) or int(each) for each in inner.split(",") if each]
    return generator.integers(-50, 50, extents).astype(dtype)


def test_the_widest_dtype_limits_the_vectors(simulated_gpu: Any) -> None:
    """Inputs of float16 and bool; eight elements are 16 bytes and 8 bytes."""
    text = graph(
        "x: real[5,6,8]; z: real[8]; b: bool[5,6,8];",
        "bool[~,~,~]",
        "t = math.lt(x, z); y = math.or(t, b)",
    )
    assert sorted(copies(text, real="float16")) == [8, 8, 16, 16]
    simulated_gpu("sm_90a")
    executable = tvm_nnef.build(text, progress=False, dtypes={"real": "float16"})
    generator = np.random.default_rng(0)
    x, z = (generator.standard_normal(shape).astype("float16") for shape in ((5, 6, 8), (8,)))
    b = generator.random((5, 6, 8)) < 0.5
    np.testing.assert_array_equal(executable(x, z, b)[0], (x < z) | b)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_functions_are_computed_of_vectors(dtype: str) -> None:
    text = graph("x: real[5,16];", "real[~,~]", "y = nn.gelu(x)")
    assert copies(text, real=dtype) == [16, 16]


def test_what_lies_apart_or_in_a_condition_is_no_vector() -> None:
    for body in ("y = layout.transpose{perm=[1,0]}(x)", "y = layout.pad{padding=[8,0,8,0]}(x)"):
        assert copies(graph("x: real[32,32];", "real[~,~]", body), real="float16") == []
