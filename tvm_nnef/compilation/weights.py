"""Weights of a module: bound as constants, and large ones moved to a parameter file.

Input: a module whose weights are parameters of ``main``, or constants. Output: the same with
constants, or with a last parameter for the tensors in the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.ir import Call

from tvm_nnef.compilation.metadata import read_members, with_members
from tvm_nnef.executable.parameter_file import HEADER, header, weight_digest
from tvm_nnef.tvm_support import compat, traversal
from tvm_nnef.tvm_support.compat import Array, Module
from tvm_nnef.tvm_support.function_attributes import INPUTS, METADATA, STATE
from tvm_nnef.tvm_support.runtime import aligned_bytes, array_of

LARGE_WEIGHTS = 256 << 20
"""If the constants of a model have more bytes than this, they go to a parameter file; in the object
file of a library they take several times their size of memory, and minutes."""

LARGE_CONSTANT = 4096
"""The bytes from which on a constant of such a model goes there; smaller ones stay in the code."""

_ALIGNMENT = 64
"""Each constant begins at a multiple of so many bytes of the file."""


def with_bound_weights(mod: Module) -> Module:
    """The module with its weights as constants; the same module if it has none as parameters."""
    main = mod["main"]
    if "params" not in (main.attrs or {}):
        return mod
    first = int(main.attrs[INPUTS])
    after = len(main.params) - int(main.attrs.get(STATE, 0))
    names = [str(parameter.name) for parameter in main.params[first:after]]
    values = dict(zip(names, main.attrs["params"], strict=True))
    bare = mod.clone()
    bare.update_func(mod.get_global_var("main"), main.without_attr("params"))
    return relax.transform.BindParams("main", values)(bare)


class ParameterFile:
    """The content of the parameter file of one module, found by one pass over it.

    ``data`` are its bytes, None if the module needs no file; ``metadata`` is the text that the
    function of this name of the module returns.
    """

    def __init__(self) -> None:
        self.data: Array | None = None
        self.metadata: str | None = None

    def separate(self, mod: Module) -> Module:
        """The module whose functions read large constants from a last parameter, a tuple of them.

        Each function that reads such a constant has this parameter, and so has each that calls
        one. The module stays as it is if its constants are small.
        """
        functions = _named_functions(mod)
        constants = _large_constants(functions.values())
        described = None
        if sum(_size(constant) for constant in constants.values()) > LARGE_WEIGHTS:
            offsets = _offsets(constants.values())
            self.data = _file_of(constants.values(), offsets)
            changed = _reading(functions, constants)
            mod = _with_parameter(mod, changed, constants)
            described = {
                "bytes": len(self.data),
                "sha256": weight_digest(self.data),
                "functions": sorted(name for name in changed if _is_public(changed[name])),
                "tensors": list(map(_described, constants.values(), offsets)),
            }
        if METADATA not in functions:
            return mod
        mod = with_members(mod, {"weights": described})
        self.metadata = json.dumps(read_members(mod))
        return mod


def _named_functions(mod: Module) -> dict[str, relax.Function]:
    """The Relax functions of a module by name, in the order of their names."""
    named = {str(variable.name_hint): function for variable, function in mod.functions.items()}
    return {n: f for n, f in sorted(named.items()) if isinstance(f, relax.Function)}


def _key(constant: Any) -> int:
    """Return a key that is the same for constants of the same tensor."""
    return int(constant.value.__chandle__())


def _size(constant: Any) -> int:
    shape, dtype = compat.shape_and_dtype(constant)
    return int(np.prod(shape, dtype=np.int64)) * compat.itemsize(dtype)


def _large_constants(functions: Iterable[relax.Function]) -> dict[int, Any]:
    """The large constants of functions, by their keys, in the order of their first use."""
    found: dict[int, Any] = {}

    def note(node: Any) -> None:
        if compat.is_tensor_constant(node) and _size(node) >= LARGE_CONSTANT:
            found.setdefault(_key(node), node)

    for function in functions:
        traversal.walk(function, (tvm.ir.GenericConst, note))
    return found


def _offsets(constants: Iterable[Any]) -> list[int]:
    """Where each constant begins in the file, and last where the file ends."""
    sizes = (-(-_size(constant) // _ALIGNMENT) * _ALIGNMENT for constant in constants)
    return list(accumulate(sizes, initial=HEADER))


def _file_of(constants: Iterable[Any], offsets: Sequence[int]) -> Array:
    """The content of the file."""
    data = aligned_bytes(offsets[-1])
    for constant, (offset, end) in zip(constants, pairwise(offsets), strict=True):
        array = array_of(constant.value).reshape(-1).view("uint8")
        data[offset : offset + len(array)] = array
        data[offset + len(array) : end] = 0
    data[:HEADER] = np.frombuffer(header(weight_digest(data)), "uint8")
    return data


def _described(constant: Any, offset: int) -> dict[str, Any]:
    shape, dtype = compat.shape_and_dtype(constant)
    return {"offset": offset, "shape": list(shape), "dtype": dtype}


def _is_public(function: relax.Function) -> bool:
    """Whether programs call a function of the library."""
    return "global_symbol" in (function.attrs or {})


def _reading(
    functions: Mapping[str, relax.Function], constants: Mapping[int, Any]
) -> dict[str, relax.Function]:
    """The functions, by name, that read one of the constants, or call one that does."""
    reads: set[str] = set()
    calls: dict[str, set[str]] = {}
    for name, function in functions.items():
        found: list[Any] = []
        traversal.walk(function, ((tvm.ir.GenericConst, relax.GlobalVar), found.append))
        calls[name] = {str(each.name_hint) for each in found if isinstance(each, relax.GlobalVar)}
        if any(compat.is_tensor_constant(each) and _key(each) in constants for each in found):
            reads.add(name)
    while more := {name for name in calls if name not in reads and calls[name] & reads}:
        reads |= more
    return {name: function for name, function in functions.items() if name in reads}


def _with_parameter(
    mod: Module, functions: Mapping[str, relax.Function], constants: Mapping[int, Any]
) -> Module:
    """The module whose named functions have one more parameter, the tuple of the constants."""
    numbers = {key: number for number, key in enumerate(constants)}
    whole = relax.TupleType([constant.ty for constant in constants.values()])
    # What a function of the module passes on was checked when a program called it.
    parameters = {
        name: relax.Var("parameters", whole if _is_public(function) else relax.AnyType())
        for name, function in functions.items()
    }
    variables = {
        name: compat.function_variable(
            name, [*function.params, parameters[name]], function.ret_ty, pure=function.is_pure
        )
        for name, function in functions.items()
    }
    kept = {v: f for v, f in mod.functions.items() if str(v.name_hint) not in functions}
    changed = {
        variables[name]: _reading_parameter(function, parameters[name], variables, numbers)
        for name, function in functions.items()
    }
    return tvm.IRModule({**kept, **changed}, attrs=mod.attrs)


def _reading_parameter(
    function: relax.Function,
    parameter: Any,
    variables: Mapping[str, relax.GlobalVar],
    numbers: Mapping[int, int],
) -> relax.Function:
    """A function that reads constants from its last parameter, and passes it on."""
    read: dict[int, Any] = {}
    bindings: list[Any] = []

    def as_variable(node: Any) -> Any:
        if not compat.is_tensor_constant(node) or _key(node) not in numbers:
            return node
        number = numbers[_key(node)]
        if number not in read:
            read[number] = relax.Var(f"weight_{number}", node.ty)
            item = compat.packed_call("vm.builtin.tuple_getitem", node.ty, parameter, number)
            bindings.append(relax.VarBinding(read[number], item))
        return read[number]

    def passed_on(call: Any) -> Any:
        match call.args:
            # A region that is captured as a CUDA graph is an argument, followed by its own ones.
            case [
                name,
                relax.Tuple(fields=[relax.GlobalVar() as region, relax.Tuple() as own, *rest]),
            ]:
                if str(region.name_hint) not in variables:
                    return call
                items = relax.Tuple([*own.fields, parameter])
                given = relax.Tuple([variables[str(region.name_hint)], items, *rest])
                return relax.Call(call.op, [name, given], call.attrs, call.ty_args)
        if not isinstance(call.op, relax.GlobalVar) or str(call.op.name_hint) not in variables:
            return call
        called = variables[str(call.op.name_hint)]
        return relax.Call(called, [*call.args, parameter], call.attrs, call.ty_args)

    body = traversal.mapped(function.body, [(tvm.ir.GenericConst, as_variable), (Call, passed_on)])
    body = relax.SeqExpr([relax.BindingBlock(bindings), *body.blocks], body.body)
    parameters = [*function.params, parameter]
    return relax.Function(parameters, body, function.ret_ty, function.is_pure, function.attrs)
