"""Functions of JAX made at random, for ``scripts/fuzz_functions.py``.

Values are small multiples of a quarter, so that comparisons, roundings and orders do not depend on
rounding: operations that need an exact operand take one that was computed without rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

INTEGERS = ("int32", "uint8", "int8", "uint32", "int16")
LARGEST = 3000
"""Elements of a tensor at most."""
Step = tuple[Callable[..., Any], list[int], bool]
"""A function, the numbers of its operands, and whether its results are exact."""


@dataclass(frozen=True)
class Value:
    """The shape and dtype of a value, and whether it was computed without rounding."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    exact: bool

    @property
    def kind(self) -> str:
        """``f`` for reals, ``i`` for integers, ``b`` for booleans."""
        if self.dtype == bool:
            return "b"
        return "f" if jnp.issubdtype(self.dtype, jnp.floating) else "i"


class Unfit(Exception):
    """No value has the properties that an operation needs."""


class Function:
    """The function of a seed, its arguments, and the names of its steps."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.values: list[Value] = []
        self.arguments: list[np.ndarray] = []
        self.names: list[str] = []
        self.steps: list[tuple[Callable[..., Any], list[int]]] = []
        for _ in range(self.random.integers(1, 4)):
            self._add_argument()
        steps = self.random.integers(4, 14)
        for _ in range(200):
            if len(self.steps) == steps:
                break
            self._add_step()

    def __call__(self, *arguments: Any) -> tuple[Any, ...]:
        """The results of the last steps."""
        values = list(arguments)
        for function, operands in self.steps:
            values += jax.tree.leaves(function(*(values[each] for each in operands)))
        return tuple(values[len(arguments) :])[-4:]

    def _add_argument(self) -> None:
        shape = [int(self.one_of([1, 2, 3, 4, 5, 7])) for _ in range(self.below(5))]
        if shape and self.chance(0.03):
            shape[self.below(len(shape))] = 0
        kind = self.random.random()
        if kind < 0.7:
            array = self.quarters(shape)
        elif kind < 0.9:
            dtype = str(self.one_of(INTEGERS))
            low = 0 if dtype.startswith("u") else -9
            array = self.random.integers(low, 10, shape).astype(dtype)
        else:
            array = np.asarray(self.random.random(shape) < 0.5)
        self.arguments.append(array)
        self.values.append(Value(array.shape, array.dtype, exact=True))

    def _add_step(self) -> None:
        name = str(self.one_of(list(STEPS)))
        try:
            function, operands, exact = STEPS[name](self)
            shapes = [
                jax.ShapeDtypeStruct(self.values[each].shape, self.values[each].dtype)
                for each in operands
            ]
            results = jax.tree.leaves(jax.eval_shape(function, *shapes))
        except (Unfit, TypeError, ValueError):
            return  # Some parameters do not fit the operands; another step is tried.
        if any(min(r.shape, default=0) < 0 or np.prod(r.shape) > LARGEST for r in results):
            return
        self.names.append(name)
        self.steps.append((function, operands))
        self.values += [Value(each.shape, np.dtype(each.dtype), exact) for each in results]

    # --- random choices

    def below(self, end: int) -> int:
        """A number from 0 to ``end - 1``."""
        return int(self.random.integers(end))

    def between(self, low: int, high: int) -> int:
        """A number from ``low`` to ``high - 1``."""
        return int(self.random.integers(low, high))

    def chance(self, probability: float) -> bool:
        """True with a probability."""
        return bool(self.random.random() < probability)

    def one_of(self, items: Any) -> Any:
        """One of some items."""
        return items[self.below(len(items))]

    def quarters(self, shape: Any) -> np.ndarray:
        """Multiples of a quarter from -4 to 4."""
        return np.asarray(self.random.integers(-16, 17, shape) / 4, "float32")

    def value(self, kinds: str = "fib", rank: int = 0, exact: bool = False, most: int = 9) -> int:
        """A value of some kinds, of at least some rank; later ones are likelier."""
        fit = [
            number for number, each in enumerate(self.values)
            if each.kind in kinds and rank <= len(each.shape) <= most and (each.exact or not exact)
        ]  # fmt: skip
        if not fit:
            raise Unfit
        weights = np.arange(1, len(fit) + 1)
        return int(self.random.choice(fit, p=weights / weights.sum()))

    def pair(self, kinds: str, exact: bool = False) -> tuple[int, int]:
        """Two values of one dtype that broadcast."""
        first = self.value(kinds, exact=exact)
        fit = [
            number for number, each in enumerate(self.values)
            if each.dtype == self.values[first].dtype and (each.exact or not exact)
            and _broadcast(each.shape, self.values[first].shape)
        ]  # fmt: skip
        return first, self.one_of(fit)

    def axis(self, value: int) -> int:
        """An axis of a value that has one."""
        return self.below(len(self.values[value].shape))

    def axes(self, value: int) -> tuple[int, ...]:
        """Some axes of a value."""
        return tuple(k for k in range(len(self.values[value].shape)) if self.chance(0.5))

    def length(self, value: int, axis: int) -> int:
        """The size of an axis that is not empty."""
        size = self.values[value].shape[axis]
        if size == 0:
            raise Unfit
        return size

    def exact(self, *values: int) -> bool:
        """Whether all of some values are exact."""
        return all(self.values[each].exact for each in values)


def _broadcast(*shapes: tuple[int, ...]) -> bool:
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        return False
    return True


STEPS: dict[str, Callable[[Function], Step]] = {}


def step(function: Callable[[Function], Step]) -> Callable[[Function], Step]:
    """Registers a kind of step."""
    STEPS[function.__name__] = function
    return function
