"""Values of inputs as words of the command line: numbers, ``zeros``, ``ones``, ``random``."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from tvm_nnef.arguments.random_inputs import require_memory_of
from tvm_nnef.diagnostics import error
from tvm_nnef.graph.nodes import Tensor
from tvm_nnef.symbolic import trees

RANDOM = "random"
_FILLED = {"zeros": 0, "ones": 1}
_NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?inf|nan|true|false"
_NUMBERS = re.compile(rf"\s*({_NUMBER})\s*(,\s*({_NUMBER})\s*)*", re.IGNORECASE)
_WORDS = {"true": True, "false": False}


def is_literal(text: str) -> bool:
    """Whether a word means values, unless a file has that name."""
    return text in (*_FILLED, RANDOM) or _NUMBERS.fullmatch(text) is not None


def count(text: str) -> int:
    """The number of values of a literal, 1 for those that fill any shape."""
    return text.count(",") + 1


def literal(text: str, tensor: Tensor, dtype: str, sizes: Mapping[str, int]) -> Any:
    """The array of a tensor that a literal means.

    One number fills the tensor; several are its elements in order. ``sizes`` are those of dynamic
    dimensions, the last of which follows from the number of elements. Raises NnefError for
    numbers that are too few or too many, and for those of another type.
    """
    shape = [int(trees.evaluate(each, sizes)) for each in tensor.shape]
    words = [each.strip().lower() for each in text.split(",")]
    if len(words) == 1:
        require_memory_of(tensor, shape)
    if text in _FILLED:
        return np.full(shape, _FILLED[text]).astype(dtype)
    if len(words) == 1:
        return np.full(shape, _value(words[0], tensor))
    dynamic = [axis for axis, size in enumerate(tensor.shape) if not isinstance(size, int)]
    if dynamic:
        rest = math.prod(size for axis, size in enumerate(shape) if axis not in dynamic)
        for axis in dynamic:
            shape[axis] = 1
        shape[dynamic[-1]] = len(words) // max(rest, 1)
    if math.prod(shape) != len(words):
        wanted = ", ".join(map(trees.text, tensor.shape))
        hint = "give one number for all elements, or as many as the tensor has"
        message = f"input '{tensor.short_name}' of shape ({wanted}) cannot have {len(words)} values"
        raise error(message, hint=hint)
    return np.array([_value(each, tensor) for each in words]).reshape(shape)


def _value(word: str, tensor: Tensor) -> int | float | bool:
    """A number or truth value of the type of a tensor."""
    name = tensor.short_name
    if word in _WORDS:
        if tensor.type == "bool":
            return _WORDS[word]
        raise error(f"input '{name}' is {tensor.type}, not a truth value", hint="give a number")
    if tensor.type == "bool":
        if word in ("0", "1"):
            return word == "1"
        raise error(f"input '{name}' is a truth value", hint="give true or false")
    if tensor.type == "real":
        return float(word)
    try:
        return int(np.int64(int(word)))
    except (ValueError, OverflowError):
        hint = "give whole numbers of at most 64 bits"
        raise error(f"input '{name}' is int, and {word} is not", hint=hint) from None
