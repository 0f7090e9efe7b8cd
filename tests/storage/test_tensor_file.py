"""The binary tensor format: exact round trips, bytes made by hand from section 5.2, faults."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401  NumPy knows the dtypes from now on.
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tvm_nnef.diagnostics import NnefError
from tvm_nnef.storage.tensor_file import (
    VENDOR,
    ItemType,
    TensorFile,
    read_tensor,
    read_tensor_header,
    write_tensor,
)

INTEGERS = (ItemType.UINT, ItemType.INT, ItemType.QUANTIZED_UINT, ItemType.QUANTIZED_INT)
REALS = [each.name.lower() for each in ItemType if each.is_ours and each.name != "BFLOAT16"]
SIGNED = (ItemType.INT, ItemType.QUANTIZED_INT)
OURS = VENDOR << 16
CORPUS = Path(__file__).resolve().parents[2].parent / "shared" / "corpus"


def header(
    shape: tuple[int, ...] = (2,),
    bits: int = 32,
    code: int = 0,
    length: int | None = None,
    *,
    magic: bytes = b"N\xef",
    version: bytes = b"\x01\x00",
    rank: int | None = None,
    extents: tuple[int, ...] | None = None,
    parameters: bytes = b"",
) -> bytes:
    """A header put together field by field in the order of section 5.2."""
    if length is None:
        length = (int(np.prod(shape, dtype=object)) * bits + 7) // 8
    rank = len(shape) if rank is None else rank
    extents = (*shape, *(0,) * (8 - len(shape))) if extents is None else extents
    words = struct.pack("<12I", length, rank, *extents, bits, code)
    return (magic + version + words + parameters).ljust(128, b"\0")


def minimal_dtype(bits: int, signed: bool) -> np.dtype[Any]:
    return np.dtype(f"{'i' if signed else 'u'}{next(w for w in (8, 16, 32, 64) if w >= bits) // 8}")


SHAPES = st.lists(st.integers(0, 4), max_size=8).map(tuple)


@st.composite
def tensors(draw: st.DrawFn) -> TensorFile:
    item_type = draw(st.sampled_from(ItemType))
    shape = draw(SHAPES)
    seed = draw(st.integers(0, 2**32 - 1))
    generator = np.random.default_rng(seed)
    if item_type.is_ours:
        dtype = np.dtype(item_type.name.lower())
        bits = 4 if item_type is ItemType.FLOAT4_E2M1FN else dtype.itemsize * 8
        codes = generator.integers(0, 2**bits, shape, dtype=f"u{dtype.itemsize}")
        return TensorFile(np.asarray(codes).view(dtype), item_type, bits)
    if item_type is ItemType.FLOAT:
        bits = draw(st.sampled_from((16, 32, 64)))
        raw = generator.integers(0, 2**16, (*shape, bits // 16), dtype=np.uint16)
        return TensorFile(raw.view(f"f{bits // 8}").reshape(shape), item_type, bits)
    if item_type is ItemType.BOOL:
        bits = draw(st.sampled_from((1, 8)))
        return TensorFile(generator.integers(0, 2, shape).astype(bool), item_type, bits)
    bits = draw(st.integers(1, 64))
    signed = item_type in SIGNED
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1)) if signed else (0, 2**bits)
    dtype = minimal_dtype(bits, signed)
    array = generator.integers(low, high, shape, dtype=dtype)
    parameters = draw(st.binary(min_size=32, max_size=32)) if "QUANT" in item_type.name else None
    return TensorFile(np.asarray(array, dtype), item_type, bits, parameters or bytes(32))


def same_bits(a: NDArray[Any], b: NDArray[Any]) -> bool:
    """Equal also for NaN, whose payload a file must keep."""
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@settings(max_examples=400, deadline=None)
@given(tensors())
def test_what_is_written_is_read_again_unchanged(tensor: TensorFile) -> None:
    data = write_tensor(tensor)
    again = read_tensor(data, "t.dat")
    assert same_bits(again.array, tensor.array)
    assert (again.item_type, again.bits) == (tensor.item_type, tensor.bits)
    assert again.parameters == tensor.parameters
    assert write_tensor(again) == data


@pytest.mark.parametrize("bits", range(1, 65))
@pytest.mark.parametrize("item_type", INTEGERS)
def test_extreme_values_of_every_width_survive(item_type: ItemType, bits: int) -> None:
    signed = item_type in SIGNED
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    array = np.array([low, high, 0, low, high], minimal_dtype(bits, signed))
    data = write_tensor(TensorFile(array, item_type, bits))
    assert len(data) == 128 + (5 * bits + 7) // 8
    assert read_tensor(data, "t.dat").array.tolist() == [low, high, 0, low, high]


@pytest.mark.parametrize("bits", [3, 12, 24, 33])
def test_tensors_larger_than_one_chunk_survive(bits: int) -> None:
    array = np.random.default_rng(0).integers(0, 2**bits, 70_001, dtype=minimal_dtype(bits, False))
    again = read_tensor(write_tensor(TensorFile(array, ItemType.UINT, bits)), "t.dat")
    assert np.array_equal(again.array, array)


BY_HAND = {
    # name: (header, data, items, dtype)
    "float16": (header((2,), 16), "003c 00c0", [1.0, -2.0], "f2"),
    "float32": (header((2,), 32), "0000803f 000000c0", [1.0, -2.0], "f4"),
    "float64": (header((1,), 64), "000000000000f03f", [1.0], "f8"),
    "uint8": (header((2,), 8, 1), "01 ff", [1, 255], "u1"),
    "int16 is little endian": (header((2,), 16, 4), "0100 feff", [1, -2], "i2"),
    "uint24 is little endian": (header((2,), 24, 1), "010000 563412", [1, 0x123456], "u4"),
    "int64": (header((1,), 64, 4), "ffffffffffffffff", [-1], "i8"),
    "1-bit bool, first item in the highest bit": (
        header((10,), 1, 5),
        "a0 40",
        [True, False, True, False, False, False, False, False, False, True],
        "?",
    ),
    "8-bit bool, anything but zero is true": (
        header((3,), 8, 5),
        "00 01 80",
        [False, True, True],
        "?",
    ),
    "4-bit unsigned": (header((3,), 4, 1), "1f 70", [1, 15, 7], "u1"),
    "5-bit signed, 00001 11111 10000 padded": (header((3,), 5, 4), "0f e0", [1, -1, -16], "i1"),
    "2-bit signed": (header((5,), 2, 4), "1b 40", [0, 1, -2, -1, 1], "i1"),
    "4-bit signed": (header((3,), 4, 4), "8f 70", [-8, -1, 7], "i1"),
    "bfloat16, an item type of ours": (
        header((2,), 16, OURS),
        "803f 00c0",
        [1.0, -2.0],
        "bfloat16",
    ),
    "float8, an item type of ours": (
        header((3,), 8, OURS | 1),
        "38 7e b8",
        [1.0, 448.0, -1.0],
        "float8_e4m3fn",
    ),
    "float4 of ours, first item in the upper bits": (
        header((3,), 4, OURS | 6),
        "2f 10",
        [1.0, -6.0, 0.5],
        "float4_e2m1fn",
    ),
    "8-bit quantized unsigned": (header((2,), 8, 2), "00 ff", [0, 255], "u1"),
    "8-bit quantized signed": (header((2,), 8, 3), "80 7f", [-128, 127], "i1"),
    "unsigned type with the deprecated sign parameter": (
        header((1,), 8, 1, parameters=b"\1"),
        "ff",
        [-1],
        "i1",
    ),
}


@pytest.mark.parametrize("case", BY_HAND)
def test_bytes_made_by_hand_are_read(case: str) -> None:
    head, data, items, dtype = BY_HAND[case]
    tensor = read_tensor(head + bytes.fromhex(data), "t.dat")
    assert tensor.array.tolist() == items
    assert tensor.array.dtype == np.dtype(dtype)


@pytest.mark.parametrize("case", [case for case in BY_HAND if "anything but" not in case])
def test_bytes_made_by_hand_are_written_the_same(case: str) -> None:
    head, data, *_ = BY_HAND[case]
    content = head + bytes.fromhex(data)
    assert write_tensor(read_tensor(content, "t.dat")) == content


def test_range_of_a_quantized_type_is_read_from_its_parameters() -> None:
    head = header((1,), 8, 2, parameters=struct.pack("<2f", -1.0, 3.0))
    assert read_tensor_header(head, "t.dat").quantized_range == (-1.0, 3.0)
    assert read_tensor_header(header((1,), 8, 2), "t.dat").quantized_range is None


@pytest.mark.parametrize("dtype", ["int2", "uint2", "int4", "uint4", "bfloat16", *REALS])
def test_arrays_of_ml_dtypes_are_written_with_their_bits(dtype: str) -> None:
    """Ints are read as bytes, since the format does not say which dtype has so many bits."""
    array = np.array([[0, 1, 0.5], [1.5, 0.25, 1]]).astype(dtype)
    data = write_tensor(array)
    bits = {"2": 2, "4": 4, "bfloat16": 16}.get(dtype.lstrip("uint"), 4 if "t4" in dtype else 8)
    assert len(data) == 128 + (6 * bits + 7) // 8
    again = read_tensor(data, "t.dat").array
    assert again.dtype == (dtype if "float" in dtype else f"{dtype.rstrip('24')}8")
    assert again.astype(float).tobytes() == array.astype(float).tobytes()


def test_a_scalar_keeps_rank_zero() -> None:
    assert read_tensor(write_tensor(np.array(1.5)), "t.dat").array.shape == ()


def test_whole_items_are_not_copied() -> None:
    data = write_tensor(np.arange(6.0))
    array = read_tensor(data, "t.dat").array
    assert np.shares_memory(array, np.frombuffer(data, np.uint8))
    assert not array.flags.writeable


@pytest.mark.parametrize("order", ["<f4", ">f4", ">i8"])
def test_arrays_of_any_byte_order_and_layout_are_written_row_major(order: str) -> None:
    array = np.arange(6).reshape(2, 3).astype(order).T
    again = read_tensor(write_tensor(array), "t.dat").array
    assert again.tolist() == [[0, 3], [1, 4], [2, 5]]


HOSTILE: dict[str, tuple[bytes, str]] = {
    "empty file": (b"", "has 0 in all"),
    "header cut off": (header()[:127], "has 127 in all"),
    "wrong magic": (header(magic=b"PK") + bytes(8), "starts with bytes 4e ef; got 50 4b"),
    "later version": (header(version=b"\2\1") + bytes(8), "version 1.0 of the tensor format"),
    "rank 9": (header(rank=9) + bytes(8), "rank 9"),
    "huge rank": (header(rank=2**32 - 1) + bytes(8), "rank 4294967295"),
    "dimension after the rank": (header(rank=0, length=4), "rank 0"),
    "no bits": (header(bits=0, code=1), "1 to 64 bits; got 0"),
    "65 bits": (header(bits=65, code=1), "1 to 64 bits; got 65"),
    "float of 8 bits": (header(bits=8) + bytes(2), "16, 32, 64 bits; got 8"),
    "bool of 2 bits": (header(bits=2, code=5) + bytes(1), "1, 8 bits; got 2"),
    "unknown type": (header(code=6) + bytes(8), "type 6 of vendor 0"),
    "foreign vendor": (header(code=1 << 16) + bytes(8), "vendor 1"),
    "unknown type of ours": (
        header(bits=8, code=OURS | 7) + bytes(2),
        f"type 7 of vendor {VENDOR}",
    ),
    "float8 of 16 bits": (header(bits=16, code=OURS | 1) + bytes(4), "has 8 bits; got 16"),
    "float4 of 8 bits": (header(bits=8, code=OURS | 6) + bytes(2), "has 4 bits; got 8"),
    "4-bit items in a byte each": (header((3,), 4, 4, length=3) + bytes(3), "takes 2 bytes"),
    "float4 whose size overflows": (
        header((2**32 - 1, 2**32 - 1, 2), 4, OURS | 6, length=1),
        "takes 18446744065119617025 bytes",
    ),
    "length other than the shape": (header(length=12) + bytes(12), "takes 8 bytes"),
    "data cut off": (header() + bytes(7), "cut off"),
    "no data": (header(), "cut off"),
    "data too long": (header() + bytes(9), "too long"),
    "volume beyond memory": (header((2**32 - 1,) * 8, length=2**32 - 1), "takes"),
    "empty, and yet beyond memory": (
        header((0, *(2**32 - 1,) * 7), length=0),
        "no memory can hold",
    ),
    "large and cut off": (header((2**30 - 1,), 32) + bytes(4), "cut off"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_damaged_files_are_refused_with_location_and_hint(case: str) -> None:
    data, message = HOSTILE[case]
    with pytest.raises(NnefError) as caught:
        read_tensor(data, "model/main.G.w.dat")
    (diagnostic,) = caught.value.diagnostics
    assert message in diagnostic.message
    assert diagnostic.path == "model/main.G.w.dat"
    assert diagnostic.hint


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300), st.booleans())
def test_no_bytes_crash_the_reader(data: bytes, with_magic: bool) -> None:
    with contextlib.suppress(NnefError):
        read_tensor(b"N\xef\1\0" + data if with_magic else data, "t.dat")


UNWRITABLE: dict[str, tuple[Callable[[], Any], str]] = {
    "complex": (lambda: np.zeros(1, complex), "complex128"),
    "text": (lambda: np.array(["a"]), "<U1"),
    "nine dimensions": (lambda: np.zeros((1,) * 9), "at most 8"),
    "4 GiB": (lambda: np.broadcast_to(np.uint8(0), (2**32,)), "less than 4 GiB"),
    "values too wide": (
        lambda: TensorFile(np.array([16], np.uint8), ItemType.UINT, 4),
        "4 bits hold 0 to 15",
    ),
    "values too negative": (
        lambda: TensorFile(np.array([-9], np.int8), ItemType.INT, 4),
        "4 bits hold -8 to 7",
    ),
    "other dtype": (lambda: TensorFile(np.zeros(1, "f4"), ItemType.INT, 32), "got float32"),
    "other width": (lambda: TensorFile(np.zeros(1, "f4"), ItemType.FLOAT, 24), "got 24"),
    "parameters": (
        lambda: TensorFile(np.zeros(1, "u1"), ItemType.QUANTIZED_UINT, 8, b""),
        "are 32 bytes",
    ),
}


@pytest.mark.parametrize("case", UNWRITABLE)
def test_what_the_format_cannot_hold_is_refused(case: str) -> None:
    make, message = UNWRITABLE[case]
    with pytest.raises(NnefError) as caught:
        write_tensor(make(), "w.dat")
    (diagnostic,) = caught.value.diagnostics
    assert message in diagnostic.message
    assert diagnostic.path == "w.dat" and diagnostic.hint


@pytest.mark.skipif(not CORPUS.is_dir(), reason="needs the corpus in shared/ beside the checkout")
def test_files_that_other_tools_wrote_are_read_and_written_the_same() -> None:
    files = sorted(CORPUS.rglob("*.dat"))
    assert files
    for file in files:
        data = file.read_bytes()
        assert write_tensor(read_tensor(data, file.name)) == data
