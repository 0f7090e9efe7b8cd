"""Tensors of a module for a GPU that are in the memory of the CPU.

Input: a module whose memory is planned, with kernels that the CPU runs
(``schedules/graph/host_kernels.py``). Output: the same, in which these read and write memory of the
CPU, and what else reads a result reads a copy of it on the GPU.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from tvm import relax
from tvm.ir import Call

from tvm_nnef.tvm_support import traversal
from tvm_nnef.tvm_support.compat import (
    Module,
    is_tensor,
    itemsize,
    packed_call,
    prim_functions,
    shape_and_dtype,
    update_functions,
)
from tvm_nnef.tvm_support.function_attributes import ON_HOST
from tvm_nnef.tvm_support.relax_functions import relax_functions

_HOST = 1
"""The number of the CPU among the devices of a virtual machine: the GPU comes first."""


def with_host_tensors(mod: Module) -> Module:
    """The module whose kernels for the CPU have their tensors there."""
    kernels = {n for n, f in prim_functions(mod).items() if ON_HOST in (f.attrs or {})}
    if not kernels:
        return mod
    mod = relax.transform.CanonicalizeBindings()(mod)
    made = {n: _Placement(f, kernels).placed(f) for n, f in relax_functions(mod).items()}
    return relax.transform.Normalize()(update_functions(mod, made))


class _Placement:
    """Writes the bindings of a function again.

    ``on_host`` has the results of kernels for the CPU, in its memory, by the variables that they
    had; ``read`` are the variables that the GPU or a caller reads.
    """

    def __init__(self, function: Any, kernels: set[str]) -> None:
        self.kernels = kernels
        self.on_host: dict[Any, Any] = {}
        self.read: set[Any] = set()
        traversal.walk(function, [(Call, self._note_result), (relax.SeqExpr, self._note_reads)])

    def placed(self, function: Any) -> Any:
        """The function with tensors in the memory of what reads them."""
        return traversal.mapped(function, (relax.BindingBlock, self._block))

    def _note_result(self, call: Any) -> None:
        if self._is_for_host(call):
            result = _result(call)
            self.on_host[result] = relax.Var(f"{result.name}_on_host", result.ty)

    def _note_reads(self, sequence: Any) -> None:
        values = [binding.value for block in sequence.blocks for binding in block.bindings]
        for value in (*values, sequence.body):
            if not self._is_for_host(value) and not isinstance(value, relax.If):
                traversal.walk(value, ((relax.Var, relax.DataflowVar), self.read.add))

    def _is_for_host(self, value: Any) -> bool:
        operator = getattr(value, "op", None)
        return isinstance(operator, relax.GlobalVar) and str(operator.name_hint) in self.kernels

    def _block(self, block: Any) -> Any:
        return relax.BindingBlock([each for old in block.bindings for each in self._renewed(old)])

    def _renewed(self, binding: Any) -> Iterator[Any]:
        """Yield the bindings that replace one."""
        variable, value = binding.var, binding.value
        if variable in self.on_host:
            if variable in self.read:
                yield binding
            yield from _allocation(self.on_host[variable])
        elif isinstance(value, relax.If):
            condition = self.on_host.get(value.cond, value.cond)
            value = relax.If(condition, value.true_branch, value.false_branch)
            yield relax.VarBinding(variable, value)
        elif self._is_for_host(value):
            yield from self._call(variable, value)
        else:
            yield binding

    def _call(self, variable: Any, call: Any) -> Iterator[Any]:
        """A call of a kernel for the CPU, after copies of what it reads of the GPU's memory."""
        arguments = list(call.args)
        for number, argument in enumerate(arguments):
            if argument in self.on_host:
                arguments[number] = self.on_host[argument]
            elif is_tensor(argument):
                arguments[number] = relax.Var("copy_on_host", argument.ty)
                yield from _allocation(arguments[number])
                yield _copy(argument, arguments[number])
        yield relax.VarBinding(variable, relax.Call(call.op, arguments))
        if (result := _result(call)) in self.read:
            yield _copy(self.on_host[result], result)


def _result(call: Any) -> Any:
    """The tensor that a call of a kernel writes."""
    return list(filter(is_tensor, call.args))[-1]


def _copy(source: Any, result: Any) -> Any:
    """The binding that copies the elements of a tensor into the memory of another one."""
    call = packed_call("runtime.TVMTensorCopyFromTo", relax.TupleType([]), source, result)
    return relax.VarBinding(relax.Var("copied", relax.TupleType([])), call)


def _allocation(variable: Any) -> Iterator[Any]:
    """The bindings of a variable to a tensor in the memory of the CPU."""
    shape, dtype = shape_and_dtype(variable)
    size = relax.ShapeExpr([math.prod(shape) * itemsize(dtype)])
    storage = relax.Var(f"{variable.name}_storage", relax.AnyType())
    memory = relax.op.memory
    yield relax.VarBinding(storage, memory.alloc_storage(size, _HOST, "global", "uint8"))
    tensor = memory.alloc_tensor(storage, 0, relax.ShapeExpr(shape), dtype, _HOST)
    yield relax.VarBinding(variable, tensor)
