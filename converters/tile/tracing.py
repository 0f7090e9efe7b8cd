"""Tensors of a Tile function during tracing: inputs, contractions and element-wise operations.

Nothing is computed. Each tensor holds its definition, so that the value which a function returns
contains the whole function; shapes and dtypes are inferred later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, TypeAlias

import numpy as np

from tvm_nnef.converters.tile.dimensions import Dim, TensorDim, as_dim, symbols
from tvm_nnef.converters.tile.indices import Constraint, IndexExpression, as_index
from tvm_nnef.converters.tile.locations import Mistake, Named, here
from tvm_nnef.diagnostics import Diagnostic, Span

Aggregation: TypeAlias = Literal["+=", "*=", ">=", "<=", "="]


@dataclass
class Binding:
    """A call of ``bind_dims``."""

    dims: tuple[TensorDim, ...]
    location: Span | None


@dataclass
class Contraction:
    """``output[subscripts] operator first combination second``"""

    operator: Aggregation
    subscripts: tuple[IndexExpression, ...]
    operands: tuple[Access, ...]
    combination: str
    location: Span | None


@dataclass
class Elementwise:
    """A function of tensors, sizes and numbers, by its name in ``conversion.FUNCTIONS``."""

    function: str
    operands: tuple[Tensor | Dim | float, ...]


class Tensor(Named):
    """A tensor of a Tile function: an input, the result of a contraction or of an operation."""

    def __init__(
        self, name: str = "", made: Elementwise | None = None, location: Span | None = None
    ) -> None:
        self.name, self.made, self.location = name, made, location
        self.bindings: list[Binding] = []
        self.ranks: list[tuple[int, Span | None]] = []

    def bind_dims(self, *dims: TensorDim) -> None:
        """Give names to the sizes of the tensor; a name that is bound twice asserts equality."""
        location = here()
        wrong = next((each for each in dims if not isinstance(each, TensorDim)), None)
        if wrong is not None:
            kind = type(wrong).__name__
            hint = (
                "give its items: I.bind_dims(X[0], X[1])" if kind == "list" else "N = TensorDim()"
            )
            raise Mistake(f"bind_dims takes TensorDim objects, not a {kind}", hint)
        for each in dims:
            if each.key.source is None:
                each.key.source = self
        self.bindings.append(Binding(dims, location))
        self.ranks.append((len(dims), location))

    def access(self, subscripts: object) -> Access:
        """Return an element; ``subscripts`` is an index expression or a tuple of them."""
        items = subscripts if isinstance(subscripts, tuple) else (subscripts,)
        position = here()
        expressions = tuple(map(as_index, items))
        self.ranks.append((len(expressions), position))
        return Access(self, expressions, position)

    __getitem__ = access

    def __setitem__(self, subscripts: object, value: object) -> None:
        if isinstance(value, _Recorded):
            return
        self.access(subscripts).aggregate("=", value)

    def add_constraint(self, constraint: Constraint) -> None:
        """Restrict the valid indices of the contraction that writes the tensor."""
        raise Mistake("only an output of a contraction has constraints", "O = TensorOutput(…)")

    def __bool__(self) -> bool:
        raise Mistake(
            "the elements of a tensor are not known while the function is traced",
            "use select(condition, then, otherwise)",
        )

    def __iter__(self) -> NoReturn:
        raise Mistake("a tensor cannot be iterated over", "use index variables")

    # NumPy's arrays and scalars leave operations to the tensor.
    __array_ufunc__ = None

    def __neg__(self) -> Tensor:
        return operation("neg", self)

    def __abs__(self) -> Tensor:
        return operation("abs", self)

    def __add__(self, other: Any) -> Any:
        return operation("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return operation("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return operation("sub", self, other)

    def __rsub__(self, other: Any) -> Any:
        return operation("sub", other, self)

    def __mul__(self, other: Any) -> Any:
        return operation("mul", self, other)

    def __rmul__(self, other: Any) -> Any:
        return operation("mul", other, self)

    def __truediv__(self, other: Any) -> Any:
        return operation("div", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return operation("div", other, self)

    def __pow__(self, other: Any) -> Any:
        return operation("pow", self, other)

    def __rpow__(self, other: Any) -> Any:
        return operation("pow", other, self)

    def __eq__(self, other: object) -> Any:
        return operation("eq", self, other)

    def __ne__(self, other: object) -> Any:
        return operation("ne", self, other)

    def __lt__(self, other: Any) -> Any:
        return operation("lt", self, other)

    def __le__(self, other: Any) -> Any:
        return operation("le", self, other)

    def __gt__(self, other: Any) -> Any:
        return operation("gt", self, other)

    def __ge__(self, other: Any) -> Any:
        return operation("ge", self, other)

    __hash__ = object.__hash__


class Output(Tensor):
    """A tensor that a contraction writes."""

    def __init__(self, sizes: Sequence[object]) -> None:
        super().__init__(location=here())
        self.sizes = tuple(map(as_dim, sizes))
        self.contraction: Contraction | None = None
        self.constraints: list[Constraint] = []

    def add_constraint(self, constraint: Constraint) -> None:
        """Restrict the valid indices: ``0 <= i - k < N`` is written ``i - k < N``."""
        here()
        if not isinstance(constraint, Constraint):
            kind = type(constraint).__name__
            raise Mistake(f"a {kind} is not a constraint", "write it as 'j < 2'")
        self.constraints.append(constraint)


def TensorOutput(*sizes: object) -> Output:
    """Return an output of a contraction; elements that are not written are 0."""
    return Output(sizes)


class _Recorded:
    """The value that an augmented assignment stores in the output: it was recorded already."""


@dataclass(eq=False)
class Access:
    """An element of a tensor, in a contraction."""

    tensor: Tensor
    subscripts: tuple[IndexExpression, ...]
    location: Span | None

    def aggregate(self, operator: Aggregation, value: object) -> Any:
        """Record the contraction that writes the tensor."""
        output = self.tensor
        if not isinstance(output, Output):
            raise Mistake(
                f"'{output.name or 'the tensor'}' is not an output, so it cannot be written",
                "O = TensorOutput(…)",
            )
        if output.contraction is not None:
            raise Mistake(
                f"'{output.name or 'the output'}' is written twice", "use an output for each"
            )
        combined = value if isinstance(value, Combination) else None
        operands = combined.operands if combined is not None else (value,)
        accesses = tuple(each for each in operands if isinstance(each, Access))
        if len(accesses) != len(operands):
            raise Mistake(
                "a contraction reads elements such as I[i, j], and combines at most two of them",
                "compute element-wise operations in their own statements",
            )
        sign = combined.function if combined is not None else ""
        output.contraction = Contraction(operator, self.subscripts, accesses, sign, here())
        return _Recorded()

    def __iadd__(self, value: object) -> Any:
        return self.aggregate("+=", value)

    def __imul__(self, value: object) -> Any:
        return self.aggregate("*=", value)

    def __ge__(self, value: object) -> Any:
        return self.aggregate(">=", value)

    def __le__(self, value: object) -> Any:
        return self.aggregate("<=", value)

    def __mul__(self, other: object) -> Combination:
        return Combination("*", self, other)

    def __add__(self, other: object) -> Combination:
        return Combination("+", self, other)

    def _unsupported(self, *_: object) -> NoReturn:
        raise Mistake(
            "elements are combined by '*' or '+' in a contraction",
            "compute other element-wise operations in their own statements",
        )

    __rmul__ = __radd__ = __sub__ = __rsub__ = __truediv__ = __rtruediv__ = _unsupported
    __neg__ = __pow__ = __lt__ = __gt__ = __isub__ = __itruediv__ = __bool__ = _unsupported


class Combination:
    """Two elements combined."""

    def __init__(self, function: str, left: Access, right: object) -> None:
        if not isinstance(right, Access):
            left._unsupported()
        self.function, self.operands = function, (left, right)

    def _unsupported(self, *_: object) -> NoReturn:
        raise Mistake(
            "a contraction combines at most two elements",
            "write an intermediate tensor, and combine it in a second contraction",
        )

    __add__ = __mul__ = __radd__ = __rmul__ = __sub__ = __truediv__ = __neg__ = _unsupported
    __bool__ = _unsupported


def operation(function: str, *operands: object) -> Tensor:
    """Return an element-wise operation."""
    operands = tuple(each.item() if isinstance(each, np.generic) else each for each in operands)
    for each in operands:
        if not isinstance(each, (Tensor, Dim, int, float)):
            hint = "element-wise operations have no indices: O = -I"
            raise Mistake(f"'{function}' takes tensors, not a {type(each).__name__}", hint)
    if not any(isinstance(each, Tensor) for each in operands):
        raise Mistake(f"'{function}' needs a tensor", "give one, or compute the number in Python")
    return Tensor(made=Elementwise(function, operands), location=here())  # type: ignore[arg-type]


def _unary(function: str, what: str) -> Callable[[Tensor], Tensor]:
    def apply(operand: Tensor) -> Tensor:
        return operation(function, operand)

    apply.__name__ = apply.__qualname__ = function
    apply.__doc__ = f"Return {what}, element by element."
    return apply


sqrt = _unary("sqrt", "the square root")
exp = _unary("exp", "the exponential")
log = _unary("log", "the natural logarithm")
sin = _unary("sin", "the sine")
cos = _unary("cos", "the cosine")
tan = _unary("tan", "the tangent")
tanh = _unary("tanh", "the hyperbolic tangent")
sigmoid = _unary("sigmoid", "1 / (1 + exp(-x))")
absolute = _unary("abs", "the absolute value")
floor = _unary("floor", "the value rounded down")
ceil = _unary("ceil", "the value rounded up")


def pow(base: object, exponent: object) -> Tensor:
    """Return a power, element by element."""
    return operation("pow", base, exponent)


def select(condition: object, then: object, otherwise: object) -> Tensor:
    """Return ``then`` where the condition holds, ``otherwise`` elsewhere."""
    return operation("select", condition, then, otherwise)


@dataclass
class Trace:
    """A traced function: its name, its inputs, and the tensors that it returns.

    If there are ``problems``, ``outputs`` are the tensors that may have further errors, and
    ``broken`` are tensors whose other errors are not reported.
    """

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    location: Span | None = None
    problems: Sequence[Diagnostic] = ()
    broken: Sequence[Tensor] = ()


def reads(tensor: Tensor) -> tuple[Tensor, ...]:
    """Return the operands of a tensor."""
    sizes: list[Dim] = []
    operands: list[object] = []
    if isinstance(tensor, Output):
        contraction = tensor.contraction
        accesses = contraction.operands if contraction else ()
        operands += [each.tensor for each in accesses]
        written = contraction.subscripts if contraction else ()
        subscripts = [*written, *(own for each in accesses for own in each.subscripts)]
        sizes += [*tensor.sizes, *(each.constant for each in subscripts)]
        sizes += [size for c in tensor.constraints for size in (c.bound, c.expression.constant)]
    elif tensor.made:
        operands += tensor.made.operands
        sizes += [each for each in tensor.made.operands if isinstance(each, Dim)]
    # A size may be that of another tensor.
    operands += [symbol.source for size in sizes for symbol in symbols(size)]
    return tuple(each for each in operands if isinstance(each, Tensor))


def in_order(trace: Trace) -> list[Tensor]:
    """Return the inputs, then every tensor that the outputs need, each after its operands."""
    ordered: dict[int, Tensor] = {id(each): each for each in trace.inputs}
    waiting = [(each, False) for each in reversed(trace.outputs)]
    open_: set[int] = set()
    while waiting:
        tensor, is_read = waiting.pop()
        if id(tensor) in ordered:
            continue
        if is_read:
            ordered[id(tensor)] = tensor
        elif id(tensor) in open_:
            raise Mistake("an output is read by its own contraction", "use another output")
        else:
            open_.add(id(tensor))
            waiting.append((tensor, True))
            waiting += [(each, False) for each in reversed(reads(tensor))]
    return list(ordered.values())
