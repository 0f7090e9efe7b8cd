"""Compilation of one kernel.

Input: a device function of TIR. Output: a SPIR-V module. The arguments are buffers, then scalars.
Each buffer is a descriptor; the scalars are push constants, 8 bytes each, or in a uniform buffer
after the others if they are too many.
"""

from __future__ import annotations

from tvm.ir import PointerType

from tvm_nnef.spirv.arithmetic import Unsupported
from tvm_nnef.spirv.assembler import Assembler
from tvm_nnef.spirv.expressions import Memory, Value, lanes_of
from tvm_nnef.spirv.statements import Statements
from tvm_nnef.tvm_support.compat import PrimFunction
from tvm_nnef.vulkan_runtime.opcodes import Op, StorageClass
from tvm_nnef.vulkan_runtime.shader import HANDLE, MAX_PUSH_CONSTANTS, Shader


def compile_kernel(function: PrimFunction) -> Shader:
    """Return the shader of a device function; raise Unsupported for code that SPIR-V lacks."""
    attributes = function.attrs or {}
    name = str(attributes["global_symbol"])
    code = Assembler()
    scope = Statements(code)
    scalars = []
    for parameter in function.params:
        kind = parameter.ty
        if not isinstance(kind, PointerType):
            scalars.append(parameter)
            continue
        dtype = lanes_of(kind.element_type)[0]
        stored = "uint8" if dtype == "bool" else dtype
        variable = code.storage_buffer(stored, len(scope.memories))
        code.name(variable, str(parameter.name))
        scope.memories[parameter] = Memory(variable, stored, StorageClass.StorageBuffer)
    buffers = len(scope.memories)
    if scalars:
        dtypes = [str(each.ty) for each in scalars]
        binding = buffers if len(scalars) > MAX_PUSH_CONSTANTS else None
        pointers = code.arguments(dtypes, binding)
        for each, dtype, (pointer, type_id) in zip(scalars, dtypes, pointers, strict=True):
            scope.values[each] = Value(dtype, (code.result(Op.Load, type_id, pointer),))
    try:
        scope.write(function.body)
    except Unsupported as problem:
        raise Unsupported(f"the kernel '{name}' has {problem}") from None
    return Shader(
        name,
        tuple(code.words(name, scope.local_size)),
        (HANDLE,) * buffers + tuple(str(each.ty) for each in scalars),
        tuple(str(tag) for tag in attributes.get("tirx.kernel_launch_params", ())),
    )
