"""Construction of the statements of an exported graph: calls, variables and constants."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tvm_nnef.converters.common.inexpressible import Inexpressible
from tvm_nnef.converters.common.names import UniqueNames
from tvm_nnef.converters.nnef1.export.values import Argument, Statement, Value
from tvm_nnef.converters.nnef1.fragments import Signature, standard
from tvm_nnef.converters.nnef1.types import ArrayType, TensorType, Type, is_generic
from tvm_nnef.storage.tensor_file import MAX_RANK

Array: TypeAlias = "NDArray[Any]"

TYPES: Mapping[str, str] = {
    "float32": "scalar", "int32": "integer", "int64": "integer", "bool": "logical",
}  # fmt: skip
"""The types of NNEF 1 for the dtypes that its tensors can have."""

_LARGEST_CONSTANT = 64
"""Upper limit of the elements of a constant in the text; a larger one becomes a variable in a
file.
"""

_INT32 = np.iinfo(np.int32)


Layout: TypeAlias = "tuple[str, tuple[int, ...]]"
"""``reshape`` with a shape, or ``transpose`` with an order of dimensions."""


@dataclass(eq=False, slots=True)
class Variable:
    """A variable or a constant, which is declared when it is first used.

    It is declared in the ``layout`` of that use, unless it is state, which a run changes.
    ``in_file`` keeps its values out of the text.
    """

    label: str
    array: Array
    in_file: bool
    is_state: bool = False
    declared: Value | None = None
    layout: Layout | None = None


@dataclass(slots=True)
class Emitter:
    """The statements so far: ``declarations`` of variables, and ``body``, the computations.

    ``files`` has the arrays of variables by label, ``variables`` the variables that values refer
    to. ``labels`` differ in more than the case of letters, since they become names of files.
    """

    declarations: list[Statement] = field(default_factory=list)
    body: list[Statement] = field(default_factory=list)
    files: dict[str, Array] = field(default_factory=dict)
    labels: UniqueNames = field(default_factory=lambda: UniqueNames(key=str.lower))
    variables: dict[Value, Variable] = field(default_factory=dict)

    def call(
        self,
        operation: str,
        *positional: Argument,
        shape: Sequence[int],
        type: str | None = None,
        more: Mapping[str, Argument] = MappingProxyType({}),
        **named: Argument | None,
    ) -> Value:
        """Emit a call with one result; return it.

        Attributes that are None or the default are omitted.
        """
        (result,) = self.calls(
            operation, *positional, shapes=[shape], type=type, more=more, **named
        )
        assert isinstance(result, Value)
        return result

    def calls(
        self,
        operation: str,
        *positional: Argument,
        shapes: Sequence[Sequence[int] | Sequence[Sequence[int]]],
        type: str | None = None,
        more: Mapping[str, Argument] = MappingProxyType({}),
        **named: Argument | None,
    ) -> tuple[Value | list[Value], ...]:
        """Emit a call with several results; a result that is an array has a sequence of shapes.

        Raises Inexpressible for operands of a type that the operation does not accept.
        """
        signature = standard()[operation]
        given = {name.rstrip("_"): each for name, each in named.items() if each is not None}
        given |= more
        given = {
            name: each for name, each in given.items() if not _is_default(name, each, signature)
        }
        parameters = {each.name.name: each.type for each in signature.parameters}
        arguments = dict(zip(parameters, positional, strict=False)) | given
        item_types = {
            name: _item_type(operation, parameters[name], arguments[name]) for name in arguments
        }
        generic = type or next(
            (item_types[each] for each in item_types if is_generic(parameters[each])), None
        )
        results = tuple(
            _result(result.type, generic, shape, operation)
            for result, shape in zip(signature.results, shapes, strict=True)
        )
        statement = Statement(
            operation,
            type,
            tuple(self._used(each) for each in positional),
            {name: self._used(each) for name, each in given.items()},
            results,
        )
        self.body.append(statement)
        return results

    def constant(self, array: Array, label: str = "constant", fixed: bool = False) -> Value:
        """Return a value of known elements: a literal if it has no dimensions and need not be a
        tensor.

        ``fixed`` means that it is a variable of the model, which is stored in a file.
        """
        is_finite = array.dtype.kind != "f" or bool(np.isfinite(array).all())
        if not array.ndim and is_finite and not fixed:
            # The shortest decimal form of a float32.
            item = float(str(array[()])) if array.dtype.kind == "f" else array.item()
            return Value(TYPES[str(array.dtype)], (), literal=item)
        value = Value(TYPES[str(array.dtype)], array.shape)
        self.variables[value] = Variable(label, array, in_file=fixed)
        return value

    def number(self, value: float) -> Value:
        """Return a literal scalar. Raises Inexpressible for a number without a literal."""
        if not math.isfinite(value):
            raise Inexpressible(f"NNEF 1 has no literal for {value}")
        return Value("scalar", (), literal=float(value))

    def tensor(self, value: Value) -> Value:
        """Return the value as the result of a statement."""
        if value.literal is not None:
            dtype = {"scalar": "float32", "integer": "int64", "logical": "bool"}[value.type]
            return self._declared("constant", np.asarray(value.literal, dtype), in_file=False)
        if value not in self.variables:
            return value
        variable = self.variables[value]
        if variable.declared is None:
            variable.declared = self._declared(variable.label, variable.array, variable.in_file)
        match variable.layout:
            case None:
                return variable.declared
            case ("reshape", _):
                return self._reshaped(variable.declared, value.shape)
            case (_, order):
                inverse = [order.index(axis) for axis in range(value.rank)]
                return self._transposed(variable.declared, inverse)

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """Return the value in another shape.

        A variable without another use is stored in that shape.
        """
        if tuple(shape) == value.shape:
            return value
        stored = self._stored_as(value, ("reshape", tuple(shape)))
        return self._reshaped(self.tensor(value), shape) if stored is None else stored

    def transpose(self, value: Value, order: Sequence[int]) -> Value:
        """Return the value with permuted dimensions.

        A variable is stored so as with :meth:`reshape`.
        """
        if list(order) == list(range(value.rank)):
            return value
        stored = self._stored_as(value, ("transpose", tuple(order)))
        return self._transposed(self.tensor(value), order) if stored is None else stored

    def _stored_as(self, value: Value, layout: Layout) -> Value | None:
        """Return a variable in another layout if it is declared so, or not declared yet; else
        None.
        """
        variable = self.variables.get(value)
        if variable is None or variable.is_state:
            return None
        if variable.declared is None:
            kind, numbers = layout
            array = variable.array
            other = array.reshape(numbers) if kind == "reshape" else array.transpose(numbers)
            variable.layout = layout
            variable.declared = self._declared(variable.label, other, variable.in_file)
        return variable.declared if variable.layout == layout else None

    def _reshaped(self, value: Value, shape: Sequence[int]) -> Value:
        ones = [axis for axis, size in enumerate(shape) if size == 1]
        others = [size for size in shape if size != 1]
        if 1 not in value.shape and others == list(value.shape):
            return self.call("unsqueeze", value, axes=ones, shape=shape)
        return self.call("reshape", value, shape_=list(shape), shape=shape)

    def _transposed(self, value: Value, order: Sequence[int]) -> Value:
        shape = [value.shape[axis] for axis in order]
        return self.call("transpose", value, axes=list(order), shape=shape)

    def _declared(self, label: str, array: Array, in_file: bool) -> Value:
        """Declare a ``variable`` or a ``constant``; return its value."""
        if array.ndim > MAX_RANK:
            raise Inexpressible(f"a variable of {array.ndim} dimensions cannot be stored")
        if not array.size:
            raise Inexpressible("a variable without elements cannot be stored")
        result = Value(TYPES[str(array.dtype)], array.shape, hint=label)
        shape = list(array.shape)
        is_single = not in_file and bool((array == array.flat[0]).all())
        values = array.reshape(-1)[:1] if is_single else array.reshape(-1)
        named: dict[str, Argument]
        if not in_file and values.size <= _LARGEST_CONSTANT and _has_literals(values):
            items = [self.constant(each.reshape(())) for each in values[:, None]]
            operation, named = "constant", {"shape": shape, "value": items}
        else:
            label = self.labels.name(label)
            self.files[label] = array
            operation, named = "variable", {"shape": shape, "label": label}
        self.declarations.append(Statement(operation, result.type, (), named, (result,)))
        return result

    def _used(self, argument: Argument) -> Argument:
        """Return an argument with its variables declared, and literals inside of arrays as
        tensors.
        """
        if isinstance(argument, Value):
            return argument if argument.literal is not None else self.tensor(argument)
        if isinstance(argument, (list, tuple)):
            return type(argument)(
                self.tensor(each) if isinstance(each, Value) else each for each in argument
            )
        return argument


def _has_literals(values: Array) -> bool:
    """Whether the elements of an array can be written in the text."""
    if values.dtype.kind == "i":
        return int(values.min()) >= _INT32.min and int(values.max()) <= _INT32.max
    return values.dtype.kind == "b" or bool(np.isfinite(values).all())


def _is_default(name: str, value: Argument, signature: Signature) -> bool:
    """Whether an attribute need not be written."""
    if name not in signature.defaults or isinstance(value, Value):
        return False
    if name in ("stride", "dilation"):
        assert isinstance(value, list)
        return all(each == 1 for each in value)
    return value == signature.defaults[name]


def _item_type(operation: str, declared: Type, argument: Argument) -> str | None:
    """Return the type of an argument's elements. Raises Inexpressible if the parameter differs."""
    if isinstance(argument, (list, tuple)):
        inner = declared.item if isinstance(declared, ArrayType) else None
        types = [_item_type(operation, inner, each) for each in argument] if inner else []
        return types[0] if types else None
    if not isinstance(argument, Value):
        return None
    wanted = declared.item if isinstance(declared, TensorType) else None
    if wanted not in (None, "?", argument.type):
        raise Inexpressible(
            f"NNEF 1 has '{operation}' for {wanted} tensors only, not for {argument.type} ones"
        )
    return argument.type


def _result(
    declared: Type, generic: str | None, shape: Sequence[int] | Sequence[Sequence[int]], hint: str
) -> Value | list[Value]:
    """Return a result of a declared type; an array has a sequence of shapes."""
    if isinstance(declared, ArrayType):
        assert declared.item is not None
        results = [_result(declared.item, generic, each, hint) for each in shape]  # type: ignore[arg-type]
        return [each for each in results if isinstance(each, Value)]
    assert isinstance(declared, TensorType)
    item = generic if declared.item in (None, "?") else declared.item
    assert item is not None, hint
    return Value(item, tuple(shape), hint=hint)  # type: ignore[arg-type]
