"""An assembler of SPIR-V modules of one entry point.

Input: instructions. Output: words. Types and constants are written once each. The required
capabilities of a device follow from the types.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from tvm_nnef.tvm_support.compat import bits_of
from tvm_nnef.vulkan_runtime.opcodes import (
    COMPUTE,
    EXTENSIONS,
    MAGIC,
    VERSION,
    BuiltIn,
    Capability,
    Decoration,
    ExecutionMode,
    Op,
    StorageClass,
)

Id: TypeAlias = int
"""The result of an instruction."""

Operand: TypeAlias = "int | str"
"""An id, a number, or text."""

_WIDTHS = {
    "int8": Capability.Int8,
    "int16": Capability.Int16,
    "int64": Capability.Int64,
    "float16": Capability.Float16,
    "float64": Capability.Float64,
}
"""The capabilities that types need, except those of 32 bits."""


_ROUNDED = frozenset((Op.FAdd, Op.FSub, Op.FMul, Op.FDiv))


class Assembler:
    """The assembler of one module. ``block`` is the label of the basic block that is being written.

    While it ``is_exact``, drivers must not fuse additions and multiplications, nor reorder them.
    """

    def __init__(self) -> None:
        self._bound = 0
        self._capabilities = {Capability.Shader: True}
        self._names: list[int] = []
        self._modes: list[int] = []
        self._decorations: list[int] = []
        self._globals: list[int] = []
        self._written: dict[tuple[Op, tuple[Operand, ...]], Id] = {}
        self._inputs: dict[BuiltIn, Id] = {}
        self._variables: list[int] = []
        self._body: list[int] = []
        self.is_exact = False
        self.glsl = self.new_id()
        self._function = self.new_id()
        self._entry = self.block = self.new_id()

    def new_id(self) -> Id:
        """Return a new id."""
        self._bound += 1
        return self._bound

    def require(self, capability: Capability) -> None:
        """Add a capability to the requirements of the module."""
        self._capabilities[capability] = True

    def name(self, target: Id, name: str) -> None:
        """Give an id a name, for people."""
        self._names += _instruction(Op.Name, target, name)

    def decorate(self, target: Id, decoration: Decoration, *operands: int) -> None:
        """Give an id a property."""
        self._decorations += _instruction(Op.Decorate, target, decoration, *operands)

    # Types and constants

    def scalar(self, dtype: str) -> Id:
        """Return the type of a number or boolean."""
        if dtype == "bool":
            return self._global(Op.TypeBool)
        width = dtype.removeprefix("u")
        if width in _WIDTHS:
            self.require(_WIDTHS[width])
        bits = bits_of(dtype)
        if dtype.startswith("float"):
            self._preserve_special_values(bits)
            return self._global(Op.TypeFloat, bits)
        return self._global(Op.TypeInt, bits, int(not dtype.startswith("u")))

    def _preserve_special_values(self, bits: int) -> None:
        """Require that drivers respect NaN and infinities of a width."""
        self.require(Capability.SignedZeroInfNanPreserve)
        mode = _instruction(
            Op.ExecutionMode, self._function, ExecutionMode.SignedZeroInfNanPreserve, bits
        )
        if (Op.TypeFloat, (bits,)) not in self._written:
            self._modes += mode

    def pointer(self, storage: StorageClass, pointee: Id) -> Id:
        """Return the type of pointers to a type."""
        return self._global(Op.TypePointer, storage, pointee)

    def array(self, element: Id, count: int) -> Id:
        """Return the type of an array inside of a kernel."""
        return self._global(Op.TypeArray, element, self.constant("uint32", count))

    def constant(self, dtype: str, value: float) -> Id:
        """Return a constant."""
        kind = self.scalar(dtype)
        if dtype == "bool":
            return self._global(Op.ConstantTrue if value else Op.ConstantFalse, type_id=kind)
        return self._global(Op.Constant, *_constant_words(dtype, value), type_id=kind)

    def _global(self, op: Op, *operands: int, type_id: Id = 0) -> Id:
        """Return the id of a type or constant, which is written if it is new."""
        key = (op, (*([type_id] if type_id else []), *operands))
        if key not in self._written:
            new = self._written[key] = self.new_id()
            self._globals += _instruction(op, *([type_id] if type_id else []), new, *operands)
        return self._written[key]

    # Variables

    def storage_buffer(self, dtype: str, binding: int) -> Id:
        """Return the variable of a buffer in device memory: a structure of an array without a
        length.
        """
        bits = bits_of(dtype)
        if bits == 8:
            self.require(Capability.StorageBuffer8BitAccess)
        if bits == 16:
            self.require(Capability.StorageBuffer16BitAccess)
        element = self.scalar(dtype)
        is_written = (Op.TypeRuntimeArray, (element,)) in self._written
        array = self._global(Op.TypeRuntimeArray, element)
        block = self._global(Op.TypeStruct, array)
        if not is_written:
            self.decorate(array, Decoration.ArrayStride, bits // 8)
            self._lay_out(block, [0])
        return self._bound_variable(StorageClass.StorageBuffer, block, binding)

    def arguments(self, dtypes: Sequence[str], binding: int | None) -> list[tuple[Id, Id]]:
        """Return pointers to scalar arguments, 8 bytes apart, and their types.

        They are push constants, or in a uniform buffer if there is a ``binding``.
        """
        types = [self.scalar(dtype) for dtype in dtypes]
        block = self.new_id()
        self._globals += _instruction(Op.TypeStruct, block, *types)
        self._lay_out(block, [8 * number for number in range(len(types))])
        if binding is None:
            storage = StorageClass.PushConstant
            variable = self.variable(storage, block)
        else:
            storage = StorageClass.Uniform
            variable = self._bound_variable(storage, block, binding)
        pointers = []
        for number, kind in enumerate(types):
            index = self.constant("uint32", number)
            pointer = self.result(Op.AccessChain, self.pointer(storage, kind), variable, index)
            pointers.append((pointer, kind))
        return pointers

    def _lay_out(self, block: Id, offsets: Sequence[int]) -> None:
        self.decorate(block, Decoration.Block)
        for member, offset in enumerate(offsets):
            operands = (block, member, Decoration.Offset, offset)
            self._decorations += _instruction(Op.MemberDecorate, *operands)

    def _bound_variable(self, storage: StorageClass, block: Id, binding: int) -> Id:
        variable = self.variable(storage, block)
        self.decorate(variable, Decoration.DescriptorSet, 0)
        self.decorate(variable, Decoration.Binding, binding)
        return variable

    def variable(self, storage: StorageClass, pointee: Id) -> Id:
        """Declare a variable of the kernel, or in memory that is shared."""
        kind, made = self.pointer(storage, pointee), self.new_id()
        local = storage is StorageClass.Function
        words = _instruction(Op.Variable, kind, made, storage)
        if local:
            self._variables += words
        else:
            self._globals += words
        return made

    def built_in(self, which: BuiltIn, component: int) -> Id:
        """Return a component of a variable of three numbers that the device sets."""
        uint = self.scalar("uint32")
        if which not in self._inputs:
            vector = self._global(Op.TypeVector, uint, 3)
            variable = self.variable(StorageClass.Input, vector)
            self.decorate(variable, Decoration.BuiltIn, which)
            self._inputs[which] = variable
        pointer = self.pointer(StorageClass.Input, uint)
        index = self.constant("uint32", component)
        position = self.result(Op.AccessChain, pointer, self._inputs[which], index)
        return self.result(Op.Load, uint, position)

    # Instructions of the kernel

    def emit(self, op: Op, *operands: Operand) -> None:
        """Write an instruction without a result."""
        self._body += _instruction(op, *operands)

    def result(self, op: Op, kind: Id, *operands: Operand) -> Id:
        """Write an instruction; return its result, of a type."""
        new = self.new_id()
        self._body += _instruction(op, kind, new, *operands)
        if self.is_exact and op in _ROUNDED:
            self.decorate(new, Decoration.NoContraction)
        return new

    def begin(self, label: Id) -> None:
        """Begin a basic block, which ``block`` names from now on."""
        self.emit(Op.Label, label)
        self.block = label

    def words(self, name: str, local_size: Sequence[int]) -> list[int]:
        """Return the module, whose entry point has a name and workgroups of a size."""
        void = self._global(Op.TypeVoid)
        kind = self._global(Op.TypeFunction, void)
        function = self._function
        self.name(function, name)
        extensions = sorted(EXTENSIONS[each] for each in self._capabilities if each in EXTENSIONS)
        parts = [
            *(_instruction(Op.Capability, each) for each in sorted(self._capabilities)),
            *(_instruction(Op.Extension, each) for each in extensions),
            _instruction(Op.ExtInstImport, self.glsl, "GLSL.std.450"),
            _instruction(Op.MemoryModel, 0, 1),
            _instruction(Op.EntryPoint, COMPUTE, function, name, *self._inputs.values()),
            _instruction(Op.ExecutionMode, function, ExecutionMode.LocalSize, *local_size),
            self._modes,
            self._names,
            self._decorations,
            self._globals,
            _instruction(Op.Function, void, function, 0, kind),
            _instruction(Op.Label, self._entry),
            self._variables,
            self._body,
            _instruction(Op.Return),
            _instruction(Op.FunctionEnd),
        ]
        header = [MAGIC, VERSION, 0, self._bound + 1, 0]
        return header + [word for part in parts for word in part]


def _instruction(op: Op, *operands: Operand) -> list[int]:
    words: list[int] = []
    for operand in operands:
        if isinstance(operand, str):
            words += _text_words(operand)
        else:
            words.append(int(operand))
    return [(len(words) + 1) << 16 | op, *words]


def _text_words(text: str) -> list[int]:
    encoded = text.encode() + b"\0"
    encoded += b"\0" * (-len(encoded) % 4)
    return list(struct.unpack(f"<{len(encoded) // 4}I", encoded))


def _constant_words(dtype: str, value: float) -> list[int]:
    """Return a number as words; narrow integers are extended by their sign."""
    if dtype.startswith("float"):
        with np.errstate(over="ignore"):
            encoded = np.asarray(value, dtype).tobytes()
    else:
        bits = max(32, bits_of(dtype))
        encoded = (int(value) & ((1 << bits) - 1)).to_bytes(bits // 8, "little")
    encoded += b"\0" * (-len(encoded) % 4)
    return list(struct.unpack(f"<{len(encoded) // 4}I", encoded))
