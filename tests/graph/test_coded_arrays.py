"""Arrays of dtypes of few bits and their bytes, against ``ml_dtypes``; what a dtype cannot hold."""

from __future__ import annotations

import io

import ml_dtypes
import numpy as np
import pytest

from tvm_nnef.arrays.coded_arrays import (
    as_held,
    format_of,
    from_held,
    largest,
    limits,
    named,
    numpy_dtype,
    storable,
)
from tvm_nnef.arrays.few_bits import FORMATS, held
from tvm_nnef.diagnostics import NnefError
from tvm_nnef.graph.arrays import converted
from tvm_nnef.graph.nodes import Tensor

INTS = [name for name in FORMATS if FORMATS[name].type == "int"]
REALS = [name for name in FORMATS if FORMATS[name].type == "real"]


def every(name: str) -> np.ndarray:
    """Each element of a dtype once."""
    if name in INTS:
        least, most = limits(name)
        return np.arange(least, most + 1).astype(numpy_dtype(name))
    return np.arange(1 << FORMATS[name].bits, dtype=np.uint8).view(numpy_dtype(name))


@pytest.mark.parametrize("name", FORMATS)
def test_bytes_are_read_back_as_the_same_elements(name: str) -> None:
    array = every(name).reshape(2, -1)
    held_as = as_held(array)
    assert held_as.dtype == held(name) and held_as.shape == array.shape
    again = from_held(held_as, name)
    assert again.dtype == array.dtype
    assert again.tobytes() == array.tobytes()


@pytest.mark.parametrize("name", INTS)
def test_the_bytes_of_ints_are_numbers_whatever_is_in_the_upper_bits(name: str) -> None:
    garbage = np.arange(256, dtype=np.uint8).view(numpy_dtype(name))
    assert as_held(garbage).tolist() == garbage.astype(np.int32).tolist()


@pytest.mark.parametrize("name", FORMATS)
def test_limits_are_those_of_ml_dtypes(name: str) -> None:
    if name in INTS:
        described = ml_dtypes.iinfo(name)
        assert limits(name) == (int(described.min), int(described.max))
    else:
        assert largest(name) == float(ml_dtypes.finfo(name).max)
    assert format_of(numpy_dtype(name)) is FORMATS[name]


def test_dtypes_of_machines_have_no_format() -> None:
    assert all(format_of(np.dtype(n)) is None for n in ("int8", "float16", "bool", "bfloat16"))


def test_files_of_numpy_get_their_dtype_back() -> None:
    codes = np.array([0x38, 0x7E], np.uint8)
    assert named(codes.view("V1"), "float8_e4m3fn").tolist() == [1.0, 448.0]
    assert named(codes.view("V2"), "bfloat16").dtype == ml_dtypes.bfloat16
    for array, dtype in ((codes, "int4"), (codes.view("V1"), "int8"), (codes.view("V2"), "int4")):
        assert named(array, dtype) is array


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(8, "int4"), (-9, "int4"), (16, "uint4"), (-1, "uint2"), (2, "int2"),
     (500.0, "float8_e4m3fn"), (-300.0, "float8_e4m3fnuz"), (7e4, "float8_e5m2"),
     (7.0, "float4_e2m1fn"), (np.nan, "float4_e2m1fn"), (np.inf, "float4_e2m1fn"),
     (0.0, "float8_e8m0fnu"), (-1.0, "float8_e8m0fnu")],
)  # fmt: skip
def test_what_a_dtype_cannot_hold_is_an_error(value: float, dtype: str) -> None:
    tensor = Tensor("x", FORMATS[dtype].type, (1,), "input")
    with pytest.raises(NnefError, match=f"{dtype} cannot hold"):
        converted(np.array([value]), tensor, dtype, "input 'x'")


@pytest.mark.parametrize(
    ("array", "dtype", "expected"),
    [(np.array([7, -8]), "int4", [7, -8]), (np.array([15], "uint4"), "int8", [15]),
     (np.array([3], "int4"), "uint2", [3]),
     (np.array([448.0, 0.3]), "float8_e4m3fn", [448.0, 0.3125]),
     (np.array([np.nan, -np.inf]), "float8_e5m2", [np.nan, -np.inf]),
     (np.array([1.5, -6]), "float4_e2m1fn", [1.5, -6]),
     (np.array([0.5], "float8_e5m2"), "float16", [0.5])],
)  # fmt: skip
def test_what_a_dtype_holds_is_rounded_at_most(
    array: np.ndarray, dtype: str, expected: list[float]
) -> None:
    kind = "int" if "int" in dtype else "real"
    found = converted(array, Tensor("x", kind, array.shape, "input"), dtype, "input 'x'")
    assert found.dtype == numpy_dtype(dtype)
    np.testing.assert_array_equal(found.astype(float), expected)


@pytest.mark.parametrize("dtype", ["float32", "bool", "bfloat16", "float8_e5m2", "int4"])
@pytest.mark.parametrize("shape", [(), (0,), (3, 2)])
def test_numpy_reads_again_what_is_storable(dtype: str, shape: tuple[int, ...]) -> None:
    array = np.ones(shape, numpy_dtype(dtype))
    file = io.BytesIO()
    np.save(file, storable(array), allow_pickle=False)
    file.seek(0)
    again = named(np.load(file, allow_pickle=False), dtype)
    assert (again.shape, again.dtype) == (shape, array.dtype)
    np.testing.assert_array_equal(again.astype(np.float32), array.astype(np.float32))
