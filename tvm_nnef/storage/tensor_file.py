"""The binary tensor format of NNEF (1.0.4, section 5.2): bytes to a :class:`TensorFile` and back.

Input and output: the bytes of a ``.dat`` file. A plain array cannot represent all properties of
such a file (a width of 5 bits, the range of a quantized type); a :class:`TensorFile` does, so that
a file is written again as it was read. No file is opened here, and variables are unknown.

The reals of Khronos are those of IEEE. For others the format has the codes of vendors, which other
readers reject instead of misinterpreting them; ``VENDOR`` is ours.
"""

from __future__ import annotations

import enum
import math
import struct
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tvm_nnef.arrays.coded_arrays import as_held, format_of, numpy_dtype
from tvm_nnef.diagnostics import NnefError, error
from tvm_nnef.storage.bit_packing import pack_bits, packed_size, unpack_bits

Array: TypeAlias = "NDArray[Any]"

HEADER_SIZE = 128
MAX_RANK = 8
_MAGIC = b"\x4e\xef"
_VERSION = (1, 0)
_LAYOUT = struct.Struct("<2s2BII8III32s44x")
_MAX_UINT32 = 2**32 - 1
_NO_PARAMETERS = bytes(32)


VENDOR = 0x5456
"""The vendor code of this package: the upper half of its item types."""


class ItemType(enum.IntEnum):
    """The item types of Khronos (vendor code 0), and ours, each for one dtype."""

    FLOAT = 0
    UINT = 1
    QUANTIZED_UINT = 2
    QUANTIZED_INT = 3
    INT = 4
    BOOL = 5
    BFLOAT16 = VENDOR << 16
    FLOAT8_E4M3FN = VENDOR << 16 | 1
    FLOAT8_E4M3FNUZ = VENDOR << 16 | 2
    FLOAT8_E5M2 = VENDOR << 16 | 3
    FLOAT8_E5M2FNUZ = VENDOR << 16 | 4
    FLOAT8_E8M0FNU = VENDOR << 16 | 5
    FLOAT4_E2M1FN = VENDOR << 16 | 6

    @property
    def is_ours(self) -> bool:
        """Whether only this package knows the type; its name is then that of its dtype."""
        return self >= VENDOR << 16


_WIDTHS: dict[ItemType, tuple[int, ...]] = {
    ItemType.FLOAT: (16, 32, 64),
    ItemType.UINT: tuple(range(1, 65)),
    ItemType.QUANTIZED_UINT: tuple(range(1, 65)),
    ItemType.QUANTIZED_INT: tuple(range(1, 65)),
    ItemType.INT: tuple(range(1, 65)),
    ItemType.BOOL: (1, 8),
    ItemType.BFLOAT16: (16,),
    **{each: (8,) for each in ItemType if each.name.startswith("FLOAT8")},
    ItemType.FLOAT4_E2M1FN: (4,),
}

_ITEM_TYPE_OF_KIND = {
    "f": ItemType.FLOAT,
    "u": ItemType.UINT,
    "i": ItemType.INT,
    "b": ItemType.BOOL,
}


@dataclass(frozen=True, slots=True)
class TensorHeader:
    """The first 128 bytes of a file. ``length`` is the number of bytes of data after them.

    ``parameters`` are the 32 bytes of the deprecated parameters of the item type, zero in most
    files.
    """

    shape: tuple[int, ...]
    item_type: ItemType
    bits: int
    parameters: bytes
    length: int

    @property
    def signed(self) -> bool:
        """Whether items are signed; the unsigned type with a non-zero first parameter is too."""
        if self.item_type is ItemType.UINT:
            return any(self.parameters[:4])
        return self.item_type in (ItemType.INT, ItemType.QUANTIZED_INT, ItemType.FLOAT)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy type that holds the items: for odd widths of integers, the next wider one."""
        if self.item_type is ItemType.BOOL:
            return np.dtype(np.bool_)
        if self.item_type.is_ours:
            return numpy_dtype(self.item_type.name.lower())
        width = next(width for width in (8, 16, 32, 64) if width >= self.bits)
        kind = "f" if self.item_type is ItemType.FLOAT else "i" if self.signed else "u"
        return np.dtype(f"{kind}{width // 8}")

    @property
    def quantized_range(self) -> tuple[float, float] | None:
        """The deprecated ``min`` and ``max`` of a quantized type; None if not given."""
        if self.item_type not in (ItemType.QUANTIZED_UINT, ItemType.QUANTIZED_INT):
            return None
        low, high = struct.unpack_from("<2f", self.parameters)
        return (low, high) if any(self.parameters[:8]) else None


@dataclass(frozen=True, eq=False, slots=True)
class TensorFile:
    """A tensor as a file has it.

    ``array`` has the dtype that :attr:`TensorHeader.dtype` names; the items of quantized types
    are their codes. ``parameters`` are the 32 raw bytes of the header.
    """

    array: Array
    item_type: ItemType
    bits: int
    parameters: bytes = _NO_PARAMETERS

    @property
    def header(self) -> TensorHeader:
        """The header under which the tensor is written."""
        length = packed_size(self.array.size, self.bits)
        return TensorHeader(self.array.shape, self.item_type, self.bits, self.parameters, length)


def read_tensor_header(data: bytes | memoryview, file: str) -> TensorHeader:
    """Read the first 128 bytes of a tensor file, named ``file`` in messages.

    All that the header says is checked, whether or not the data follow it. Raises
    :class:`NnefError` for anything that is not a header of NNEF 1.0.4, section 5.2.
    """
    if len(data) < HEADER_SIZE:
        raise error(
            f"a tensor file has a header of {HEADER_SIZE} bytes, this one has {len(data)} in all",
            hint="the file is cut off or is not a tensor file; write or copy it again",
            file=file,
        )
    magic, major, minor, length, rank, *rest = _LAYOUT.unpack_from(data)
    shape, (bits, code, parameters) = tuple(rest[:MAX_RANK]), rest[MAX_RANK:]
    if magic != _MAGIC:
        raise error(
            f"expected a tensor file, which starts with bytes 4e ef; got {magic.hex(' ')}",
            hint="a '.dat' file holds one variable in the binary format of NNEF 1.0, section 5.2",
            file=file,
        )
    if major != _VERSION[0]:
        raise error(
            f"expected version 1.0 of the tensor format, got {major}.{minor}",
            hint="write the file again with a tool that writes version 1.0",
            file=file,
        )
    if rank > MAX_RANK or any(shape[rank:]):
        raise error(
            f"expected at most {MAX_RANK} dimensions and zeros after the last one; "
            f"got rank {rank} and dimensions {list(shape)}",
            hint="the header is damaged; write the file again",
            file=file,
        )
    item_type = _item_type(code, bits, file)
    header = TensorHeader(shape[:rank], item_type, bits, parameters, length)
    _check_length(header, file)
    return header


def check_size(header: TensorHeader, size: int, file: str) -> None:
    """Raise :class:`NnefError` unless a file of ``size`` bytes in all fits its header."""
    if size != HEADER_SIZE + header.length:
        fault = "cut off" if size < HEADER_SIZE + header.length else "too long"
        raise error(
            f"the file is {fault}: its header promises {header.length} bytes of data "
            f"(shape {list(header.shape)}, {header.bits} bits per item), "
            f"there are {size - HEADER_SIZE}",
            hint="write or copy the file again",
            file=file,
        )


def read_tensor(data: bytes | memoryview, file: str) -> TensorFile:
    """Read a whole tensor file, named ``file`` in messages.

    If the items of the file are those of a NumPy type, the array is a read-only view of ``data``,
    without a copy. Raises :class:`NnefError` for a damaged header, a file longer or shorter than
    its header says, and sizes that no memory can hold.
    """
    header = read_tensor_header(data, file)
    check_size(header, len(data), file)
    flat = _read_items(memoryview(data)[HEADER_SIZE:], header)
    return TensorFile(
        flat.reshape(header.shape), header.item_type, header.bits, bytes(header.parameters)
    )


def write_tensor(tensor: TensorFile | Array, file: str = "tensor") -> bytes:
    """Return the bytes of a tensor file; ``file`` is its name in messages.

    A plain array of dtype bool, an integer type, float4 to float64 or bfloat16 is written with all
    its bits, bool with one bit per item. Raises :class:`NnefError` if the format has no place for
    the tensor: another dtype, more than 8 dimensions, values wider than ``bits``, or 4 GiB of data.
    """
    if not isinstance(tensor, TensorFile):
        tensor = _tensor_of(tensor, file)
    _check_writable(tensor, file)
    header = tensor.header
    sizes = header.shape + (0,) * (MAX_RANK - len(header.shape))
    head = _LAYOUT.pack(
        _MAGIC,
        *_VERSION,
        header.length,
        len(header.shape),
        *sizes,
        header.bits,
        int(header.item_type),
        header.parameters,
    )
    return head + _write_items(tensor)


def _item_type(code: int, bits: int, file: str) -> ItemType:
    if code not in set(ItemType):
        raise error(
            f"expected an item type of Khronos, 0 to {ItemType.BOOL:d}; "
            f"got type {code & 0xFFFF} of vendor {code >> 16}",
            hint="float is 0, unsigned 1, quantized 2 and 3, signed 4, bool 5",
            file=file,
        )
    item_type = ItemType(code)
    if bits not in _WIDTHS[item_type]:
        raise _width_error(item_type, bits, file)
    return item_type


def _width_error(item_type: ItemType, bits: int, file: str) -> NnefError:
    widths = _WIDTHS[item_type]
    allowed = "1 to 64" if len(widths) == 64 else ", ".join(map(str, widths))
    name = item_type.name.lower().replace("_", " ")
    return error(
        f"an item of type {name} has {allowed} bits; got {bits}",
        hint="the bits per item are at byte 44 of the header",
        file=file,
    )


def _check_length(header: TensorHeader, file: str) -> None:
    expected = packed_size(math.prod(header.shape), header.bits)
    if header.length != expected:
        raise error(
            f"shape {list(header.shape)} at {header.bits} bits per item takes {expected} bytes of "
            f"data; the header says {header.length}",
            hint="the header is damaged; write the file again",
            file=file,
        )
    # NumPy refuses an empty array whose other dimensions overflow; so do we, with a location.
    if math.prod(filter(None, header.shape)) * header.dtype.itemsize >= 2**63:
        raise error(
            f"no memory can hold a tensor of shape {list(header.shape)}",
            hint="the header is damaged; write the file again",
            file=file,
        )


def _read_items(data: memoryview, header: TensorHeader) -> Array:
    """Return the items as a flat array; ``data`` has the length that the header asks for."""
    count, bits, dtype = math.prod(header.shape), header.bits, header.dtype
    if count == 0:
        return np.empty(0, dtype)
    if header.item_type is ItemType.BOOL and bits == 8:
        return np.not_equal(np.frombuffer(data, np.uint8), 0)
    if header.item_type.is_ours and bits == dtype.itemsize * 8:
        # Without a byte order: NumPy knows these dtypes in that of the machine only.
        return np.frombuffer(data, f"<u{dtype.itemsize}").astype(f"u{dtype.itemsize}").view(dtype)
    if dtype.kind != "b" and bits == dtype.itemsize * 8:
        return np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype, copy=False)
    items = unpack_bits(data, count, bits)
    if header.signed:
        shift = 64 - bits
        items = ((items << np.uint64(shift)).view(np.int64) >> np.int64(shift)).view(np.uint64)
    if header.item_type.is_ours:
        return items.astype(np.uint8).view(dtype)
    return items.astype(dtype)


def _write_items(tensor: TensorFile) -> bytes:
    array, bits = tensor.array.reshape(-1), tensor.bits
    if tensor.item_type.is_ours:
        array = np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")
    if tensor.item_type is ItemType.BOOL and bits == 8:
        return array.astype(np.uint8).tobytes()
    if tensor.item_type is not ItemType.BOOL and bits == array.dtype.itemsize * 8:
        return array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
    signed = array.dtype.kind == "i"
    wide = array.astype(np.int64).view(np.uint64) if signed else array.astype(np.uint64)
    return pack_bits(wide, bits)


def _tensor_of(array: Array, file: str) -> TensorFile:
    few = format_of(array.dtype)
    if few is not None and few.type == "int":
        whole = as_held(array)
        return TensorFile(whole, _ITEM_TYPE_OF_KIND[whole.dtype.kind], few.bits)
    name = array.dtype.name.upper()
    if name in ItemType.__members__ and ItemType[name].is_ours:
        (bits,) = _WIDTHS[ItemType[name]]
        return TensorFile(array, ItemType[name], bits)
    item_type = _ITEM_TYPE_OF_KIND.get(array.dtype.kind)
    bits = 1 if item_type is ItemType.BOOL else array.dtype.itemsize * 8
    if item_type is None or bits not in _WIDTHS[item_type]:
        raise error(
            f"a tensor file cannot hold items of dtype {array.dtype}",
            hint="convert the array to bool, an integer type, or a real of at most 64 bits",
            file=file,
        )
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    return TensorFile(native, item_type, bits)


def _check_writable(tensor: TensorFile, file: str) -> None:
    array, header = tensor.array, tensor.header
    if header.bits not in _WIDTHS[header.item_type]:
        raise _width_error(header.item_type, header.bits, file)
    if array.ndim > MAX_RANK:
        raise error(
            f"a tensor file has at most {MAX_RANK} dimensions; got {array.ndim}",
            hint="store the tensor with some dimensions merged, and unflatten it in the model",
            file=file,
        )
    if header.length > _MAX_UINT32 or max(array.shape, default=0) > _MAX_UINT32:
        raise error(
            f"a tensor file holds less than 4 GiB of data; got {header.length} bytes",
            hint="split the variable into several",
            file=file,
        )
    if len(tensor.parameters) != len(_NO_PARAMETERS):
        raise error(
            f"the parameters of an item type are 32 bytes; got {len(tensor.parameters)}",
            hint="fill them with zero bytes",
            file=file,
        )
    if array.dtype != header.dtype:
        raise error(
            f"{header.bits} bits of type {header.item_type.name} are held in an array of "
            f"{header.dtype}; got {array.dtype}",
            hint=f"convert the array to {header.dtype}",
            file=file,
        )
    if array.dtype.kind in "iu" and header.bits < array.dtype.itemsize * 8 and array.size:
        _check_range(array, header, file)


def _check_range(array: Array, header: TensorHeader, file: str) -> None:
    low, high = (0, 2**header.bits - 1)
    if header.signed:
        low, high = -(2 ** (header.bits - 1)), 2 ** (header.bits - 1) - 1
    least, largest = int(array.min()), int(array.max())
    if least < low or largest > high:
        raise error(
            f"{header.bits} bits hold {low} to {high}; got values from {least} to {largest}",
            hint="write the tensor with more bits",
            file=file,
        )
