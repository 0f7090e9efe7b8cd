"""The values of variables: ``.dat`` files as a graph declares them (sections 4.1.3 and 5.2).

Input: a label, its declaration and the files of a model. Output: an array. Items of quantized types
are codes, which ``graph.quant`` interprets, or the deprecated parameters of the header.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tvm_nnef.converters.nnef1.blocks import blocks_of
from tvm_nnef.converters.nnef1.calls import Call, Value
from tvm_nnef.diagnostics import MAX_REPORTED, NnefError, Note, did_you_mean, error
from tvm_nnef.storage.container import Container
from tvm_nnef.storage.tensor_file import (
    HEADER_SIZE,
    ItemType,
    TensorFile,
    check_size,
    read_tensor,
    read_tensor_header,
)

Array: TypeAlias = "NDArray[Any]"

_LABEL = re.compile(r"[A-Za-z0-9_.\-/\\]+")

_ITEM_TYPES: Mapping[str, tuple[ItemType, ...]] = MappingProxyType({
    "scalar": (ItemType.FLOAT, ItemType.QUANTIZED_UINT, ItemType.QUANTIZED_INT),
    "integer": (ItemType.UINT, ItemType.INT),
    "logical": (ItemType.BOOL,),
})  # fmt: skip
"""The item types that may store tensors of each data type (section 5.2.1)."""

_QUANTIZED = (ItemType.QUANTIZED_UINT, ItemType.QUANTIZED_INT)
_INT32 = np.iinfo(np.int32)


class Files:
    """The files of a model, whose names are listed once, and only if a label has no file."""

    def __init__(self, container: Container) -> None:
        self.container = container
        self.missing = 0

    @functools.cached_property
    def names(self) -> Mapping[str, str]:
        """The names of all files by their forms in small letters; the first of equal ones."""
        return {each.lower(): each for each in reversed(self.container.names())}

    def nearest(self, name: str) -> str | None:
        """Return a hint that names the nearest tensor file; none after the number of errors that
        are reported.
        """
        self.missing += 1
        if self.missing > MAX_REPORTED:
            return None
        return did_you_mean(
            name, sorted(each for each in self.names.values() if each.endswith(".dat"))
        )


def check_label(call: Call) -> str:
    """Return the label of a ``variable``; raise NnefError if it is not valid."""
    label = call.arguments["label"]
    assert isinstance(label, str)
    if not _LABEL.fullmatch(label):
        message = f"the label '{label}' of a variable is not valid" if label else "an empty label"
        hint = "a label consists of letters, digits, '_', '-', '.', '/' and '\\'"
        raise error(message, call.location, hint=hint)
    parts = re.split(r"[/\\]", label)
    if ".." in parts or not parts[0]:
        message = f"the label '{label}' leads outside of the model"
        raise error(message, call.location, hint="a label is relative, without '..'")
    return label


def read_variable(
    files: Files | None, call: Call, quantizer: Call | None, tract_items: bool = False
) -> Array:
    """Return the value of a ``variable``: float32, int32 (int64 if it needs that), or bool.

    ``quantizer`` is its line of ``graph.quant``; ``tract_items`` admits integers marked as
    quantized, and blocks. Raises NnefError for a file that is missing, damaged, or differs from the
    declaration.
    """
    label = check_label(call)
    if files is None:
        hint = "give a folder with the '.dat' files"
        raise error(f"the text has no values for the variable '{label}'", call.location, hint=hint)
    name, container = _file_name(files, label, call), files.container
    position = container.location(name)
    try:
        head = container.read(name, HEADER_SIZE)
        blocks = blocks_of(head) if call.item_type == "scalar" else None
        if blocks is not None and not tract_items:
            hint = "convert with vendor='tract' (--vendor tract)"
            message = f"{position} has blocks of 4-bit numbers of tract"
            raise error(message, call.location, hint=hint)
        if blocks is not None:
            _check_shape(blocks.shape, label, call, position)
            return blocks.read(container.read(name), position)
        header = read_tensor_header(head, position)
        check_size(header, container.size(name), position)
        _check_shape(header.shape, label, call, position)
        if not (tract_items and call.item_type == "integer" and header.item_type in _QUANTIZED):
            _check_type(header.item_type, call, position)
        tensor = read_tensor(container.read(name), position)
    except NnefError as problem:
        if all(each.span is None for each in problem.diagnostics):
            raise problem.with_note(Note(f"for the variable '{label}'", call.location)) from None
        raise
    return _array(tensor, call, quantizer, position)


def _file_name(files: Files, label: str, call: Call) -> str:
    """Return the file of a variable; the case of letters is ignored if there is no exact match."""
    wanted = f"{label}.dat".replace("\\", "/")
    if files.container.exists(wanted):
        return wanted
    if wanted.lower() in files.names:
        return files.names[wanted.lower()]
    expected = f"the values are expected in '{files.container.location(wanted)}'"
    hint = files.nearest(wanted) or expected
    raise error(f"the variable '{label}' has no file '{wanted}'", call.location, hint=hint)


def _check_shape(shape: tuple[int, ...], label: str, call: Call, position: str) -> None:
    if shape != call.arguments["shape"]:
        declared = list(call.arguments["shape"])  # type: ignore[arg-type]
        message = f"the variable '{label}' has the shape {declared}, its file {position} has "
        hint = "correct the graph or the file"
        raise error(f"{message}{list(shape)}", call.location, hint=hint)


def _check_type(item_type: ItemType, call: Call, position: str) -> None:
    wanted = _ITEM_TYPES[call.item_type or "scalar"]
    if item_type not in wanted:
        found = item_type.name.lower().replace("_", " ")
        message = f"a variable of type {call.item_type} is stored as {found} in {position}"
        names = " or ".join(each.name.lower().replace("_", " ") for each in wanted)
        hint = f"store it as {names}, or declare it with another type"
        raise error(message, call.location, hint=hint)


def _array(tensor: TensorFile, call: Call, quantizer: Call | None, position: str) -> Array:
    array = tensor.array
    if tensor.item_type in _QUANTIZED and call.item_type != "integer":
        with np.errstate(over="ignore"):
            return _float32(_dequantized(tensor, call, quantizer, position), call, position)
    if call.item_type == "logical":
        return array.astype(np.bool_, copy=False)
    if call.item_type == "scalar":
        return _float32(array, call, position)
    small = not array.size or (int(array.min()) >= _INT32.min and int(array.max()) <= _INT32.max)
    if not small and array.dtype == np.uint64 and int(array.max()) > np.iinfo(np.int64).max:
        message = f"{position} has integers beyond 63 bits"
        raise error(message, call.location, hint="store smaller integers")
    return array.astype(np.int32 if small else np.int64)


def _float32(array: Array, call: Call, position: str) -> Array:
    with np.errstate(over="ignore"):
        found = array.astype(np.float32, copy=False)
    if found is not array and np.any(np.isinf(found) & np.isfinite(array)):
        message = f"{position} has numbers beyond float32"
        raise error(message, call.location, hint="scale them down, or store float32")
    return found


def _dequantized(tensor: TensorFile, call: Call, quantizer: Call | None, position: str) -> Array:
    """Return the real numbers that codes represent (sections 5.2 and 7.1)."""
    bits = tensor.bits
    codes = tensor.array.astype(np.float64)
    if quantizer is not None and quantizer.operation in _DECODERS:
        _check_codes(tensor, quantizer, position)
        return _DECODERS[quantizer.operation](codes, tensor, quantizer.arguments)
    limits = tensor.header.quantized_range
    if limits is None:
        message = f"{position} has quantized items, and nothing says what they stand for"
        hint = f"add a line to 'graph.quant', such as \"name\": linear_quantize(…, bits = {bits});"
        raise error(message, call.location, hint=hint)
    low, high = limits
    if not (math.isfinite(low) and math.isfinite(high)):
        message = f"{position} has quantized items from {low} to {high}"
        raise error(message, call.location, hint="the header is damaged; write the file again")
    if tensor.item_type is ItemType.QUANTIZED_UINT:
        return np.asarray(codes / (2**bits - 1) * (high - low) + low)
    return _from_logarithm(_pattern(tensor, bits), bits, high, signed=low < 0)


def _check_codes(tensor: TensorFile, quantizer: Call, position: str) -> None:
    """Raise NnefError for codes that a quantizer does not have."""
    bits = int(_number(quantizer.arguments["bits"]))
    signed = bool(quantizer.arguments.get("signed"))
    if quantizer.operation == "logarithmic_quantize":
        signed = tensor.item_type is ItemType.QUANTIZED_INT
    elif quantizer.operation == "min_max_linear_quantize":
        signed = signed and tensor.item_type is ItemType.QUANTIZED_INT
    least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    codes = tensor.array
    if codes.size and not (least <= int(codes.min()) and int(codes.max()) <= most):
        description = f"{position} has codes from {codes.min()} to {codes.max()}"
        hint = "correct 'bits' or 'signed', or the item type of the file"
        message = f"{description}, and the quantizer has those from {least} to {most}"
        raise error(message, quantizer.location, hint=hint)


def _pattern(tensor: TensorFile, bits: int) -> Array:
    """Return the lowest bits of signed items as unsigned numbers."""
    wide = tensor.array.astype(np.int64).view(np.uint64)
    return np.asarray(wide & np.uint64(2**bits - 1))


def _from_logarithm(codes: Array, bits: int, high: float, *, signed: bool) -> Array:
    """Return powers of 2 up to ``high``; the first bit of a signed code is its sign."""
    width = bits - 1 if signed else bits
    largest = math.ceil(math.log2(high)) if high > 0 else 0
    magnitude = (codes & np.uint64(2**width - 1)).astype(np.float64)
    powers = np.exp2(magnitude + (largest - (2**width - 1)))
    return (
        np.where(codes >> np.uint64(width) != 0, -powers, powers) if signed else np.asarray(powers)
    )


def _decode_range(codes: Array, tensor: TensorFile, arguments: Mapping[str, Value]) -> Array:
    """Return the reals that ``min_max_linear_quantize`` or ``linear_quantize`` assigns to codes."""
    low, high = _number(arguments["min"]), _number(arguments["max"])
    bits = int(_number(arguments["bits"]))
    signed, symmetric = bool(arguments.get("signed")), bool(arguments.get("symmetric"))
    steps = 2**bits - 1 - int(signed and symmetric)
    zero = 2 ** (bits - 1) - int(symmetric) if signed else 0
    if tensor.item_type is ItemType.QUANTIZED_UINT:
        zero = 0
    return np.asarray((codes + zero) / steps * (high - low) + low)


def _decode_zero_point(codes: Array, tensor: TensorFile, arguments: Mapping[str, Value]) -> Array:
    found = (codes - _number(arguments["zero_point"])) * _number(arguments["scale"])
    return np.asarray(found)


def _decode_logarithm(codes: Array, tensor: TensorFile, arguments: Mapping[str, Value]) -> Array:
    bits, high = int(_number(arguments["bits"])), _number(arguments["max"])
    signed = tensor.item_type is ItemType.QUANTIZED_INT
    return _from_logarithm(_pattern(tensor, bits), bits, high, signed=signed)


def _number(value: Value) -> float:
    assert isinstance(value, (int, float))
    return float(value)


_DECODERS: Mapping[str, Callable[[Array, TensorFile, Mapping[str, Value]], Array]]
_DECODERS = MappingProxyType({
    "linear_quantize": _decode_range,
    "min_max_linear_quantize": _decode_range,
    "zero_point_linear_quantize": _decode_zero_point,
    "logarithmic_quantize": _decode_logarithm,
})  # fmt: skip
