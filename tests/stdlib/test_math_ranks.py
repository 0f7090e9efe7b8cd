"""Module math on every rank from 0 to 5, with sizes 0 and 1: functions, packs, positions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

RANDOM = np.random.default_rng(19)
SHAPES: list[tuple[int, ...]] = [(), (3,), (2, 1), (2, 0, 3), (2, 1, 3, 2), (1, 2, 1, 3, 2)]
WITH_AXES = SHAPES[1:]

Case = tuple[str, dict[str, Any], list[Any], Any]


def real(shape: tuple[int, ...], low: float = 0.1, high: float = 0.9) -> Any:
    """Reals of which every function has a value."""
    return RANDOM.uniform(low, high, shape).astype(np.float32)


def truth(shape: tuple[int, ...]) -> Any:
    return RANDOM.integers(0, 2, shape).astype(bool)


UNARY: dict[str, Callable[[Any], Any]] = {
    "neg": np.negative, "rcp": np.reciprocal, "sqr": np.square, "sqrt": np.sqrt,
    "rsqr": lambda x: 1 / (x * x), "rsqrt": lambda x: 1 / np.sqrt(x), "exp": np.exp, "log": np.log,
    "log2": np.log2, "sin": np.sin, "cos": np.cos, "tan": np.tan, "sinh": np.sinh,
    "cosh": np.cosh, "tanh": np.tanh, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "abs": np.abs, "sign": np.sign,
    "floor": np.floor, "ceil": np.ceil, "round": np.round,
}  # fmt: skip


def unary() -> Iterator[Case]:
    for shape in SHAPES:
        small, large = real(shape), real(shape, 1.1, 3)
        for name, function in UNARY.items():
            x = large if name == "acosh" else small
            yield f"math.{name}", {}, [x], function(x)
        p = truth(shape)
        yield "math.not", {}, [p], ~p


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "mod": np.fmod,
    "pow": np.power, "min": np.minimum, "max": np.maximum, "lt": np.less, "gt": np.greater,
    "le": np.less_equal, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip
LOGIC = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def broadcast() -> Iterator[Case]:
    """Each shape with its last dimensions, and with 1 instead of every other dimension."""
    for shape in SHAPES:
        tail = shape[len(shape) // 2 :]
        thin = tuple(1 if n % 2 else extent for n, extent in enumerate(shape))
        for other in (tail, thin):
            x, y = real(shape), real(other)
            for name, function in BINARY.items():
                yield f"math.{name}", {}, [x, y], function(x, y)
            p, q = truth(shape), truth(other)
            for name, logical in LOGIC.items():
                yield f"math.{name}", {}, [q, p], logical(q, p)
            a = real(())
            yield "math.select", {}, [q, x, y], np.where(q, x, y)
            yield "math.clamp", {}, [x, y, y + 0.1], np.clip(x, y, y + np.float32(0.1))
            yield "math.axpb", {}, [a, x, y], a * x + y
            yield "math.axpby", {}, [a, x, y, y], a * x + y * y


def aligned() -> Iterator[Case]:
    """The second operand at the left end, after one dimension, before one."""
    for shape in SHAPES[2:]:
        x = real(shape)
        for align, part in ((0, shape[:2]), (1, shape[1:2]), (-1, shape[-2:-1])):
            y = real(part)
            lead = len(shape) - 2 if align < 0 else align
            wide = y.reshape((1,) * lead + part + (1,) * (len(shape) - lead - len(part)))
            for name in ("add", "pow", "lt"):
                yield f"math.{name}", {"rhs_align": align}, [x, y], BINARY[name](x, wide)
                yield f"math.{name}", {"lhs_align": align}, [y, x], BINARY[name](wide, x)


PACKS: dict[str, Callable[..., Any]] = {
    "sum_n": np.sum, "prod_n": np.prod, "min_n": np.min, "max_n": np.max, "argmin_n": np.argmin,
    "argmax_n": np.argmax,
}  # fmt: skip


def packs() -> Iterator[Case]:
    for shape in SHAPES:
        xs = [real(shape) for _ in range(3)]
        for name, function in PACKS.items():
            found = np.asarray(function(np.stack(xs), axis=0))
            wanted = found.astype(np.int32) if "arg" in name else found
            yield f"math.{name}", {}, [xs], wanted
        ps = [truth(shape) for _ in range(3)]
        yield "math.any_n", {}, [ps], np.any(ps, 0)
        yield "math.all_n", {}, [ps], np.all(ps, 0)


def along_an_axis() -> Iterator[Case]:
    for shape in WITH_AXES:
        # few values, so that many are equal
        x = RANDOM.integers(0, 3, shape).astype(np.float32)
        for axis in range(-len(shape), len(shape)):
            yield "math.cumsum", {"axis": axis}, [x], np.cumsum(x, axis)
            if not shape[axis]:
                continue
            for name, find in (("argmin", np.argmin), ("argmax", np.argmax)):
                position = find(x, axis).astype(np.int32)
                attributes = {"axis": axis, "squeeze": True}
                yield f"math.{name}", attributes, [x], position
                yield f"math.{name}", {"axis": axis}, [x], np.expand_dims(position, axis)
                attributes = {"axes": [axis], "squeeze": True}
                yield f"math.{name}_nd", attributes, [x], [position]


FAMILIES = {
    "unary": unary, "broadcast": broadcast, "aligned": aligned, "packs": packs,
    "along an axis": along_an_axis,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_every_rank(family: str, agree: Any) -> None:
    with np.errstate(all="ignore"):
        agree(list(FAMILIES[family]()))
