"""Words of the command line as values: what argparse calls the types of arguments."""

from __future__ import annotations

import argparse
import math
from typing import Any

_TRUTH = {"true": True, "false": False}


def pair(text: str) -> tuple[str, str]:
    """A name and its value, both text."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, found '{text}'")
    return name, value


def attribute(text: str) -> tuple[str, Any]:
    """A graph attribute: a name, and a value or a tuple of values."""
    name, value = pair(text)
    if value.startswith("[") and value.endswith("]"):
        inner = value[1:-1]
        return name, tuple(_atom(item) for item in inner.split(",")) if inner.strip() else ()
    if "," in value:
        return name, tuple(_atom(item) for item in value.split(","))
    return name, _atom(value)


def _atom(text: str) -> bool | int | float | str:
    word = text.strip()
    if word in _TRUTH:
        return _TRUTH[word]
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return word.strip("'\"")


def named_shape(text: str) -> tuple[str, tuple[int | str, ...]]:
    """The shape of an input, in which a name stands for a dynamic dimension."""
    name, value = pair(text)
    items = [item.strip() for item in value.strip("[]()").split(",") if item.strip()]
    if not all(item.isdecimal() or item.isidentifier() for item in items):
        message = f"expected INPUT=1,3,224,224 or INPUT=N,3,224,224, found '{text}'"
        raise argparse.ArgumentTypeError(message)
    return name, tuple(int(item) if item.isdecimal() else item for item in items)


def bound(text: str) -> tuple[str, int | tuple[int | None, ...]]:
    """The bound of a dynamic dimension, or one for each dimension of a tensor."""
    name, _, value = text.rpartition("=")
    items = [None if item.strip() == "_" else item.strip() for item in value.split(",")]
    if not all(item is None or (item.isdecimal() and int(item)) for item in items):
        message = f"expected NAME=16, NAME=_,16 or a number, found '{text}'"
        raise argparse.ArgumentTypeError(message)
    numbers = tuple(None if item is None else int(item) for item in items)
    return name, numbers if len(numbers) > 1 or numbers[0] is None else numbers[0]


def channels(text: str) -> tuple[float, ...]:
    """A number for all channels of an image, or one for each."""
    numbers = tuple(_real(item) for item in text.split(","))
    if len(numbers) not in (1, 3, 4) or any(map(math.isnan, numbers)):
        message = f"expected a number, or 3 or 4 as in 123.7,116.3,103.5, found '{text}'"
        raise argparse.ArgumentTypeError(message)
    return numbers


def count(text: str) -> int:
    """Return a whole number, 1 or more."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number, 1 or more, found '{text}'")
    return int(text)


def seed(text: str) -> int:
    """Return a whole number, 0 or more."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a whole number, 0 or more, found '{text}'")
    return int(text)


def tolerance(text: str) -> float:
    """A finite number that is not negative."""
    value = _real(text)
    if not value >= 0:
        raise argparse.ArgumentTypeError(f"expected a number such as 1e-4, found '{text}'")
    return value


def seconds(text: str) -> float:
    """A positive finite number."""
    value = _real(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"expected a positive number, found '{text}'")
    return value


def _real(text: str) -> float:
    """The finite number that a word stands for, otherwise NaN."""
    try:
        value = float(text)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan
