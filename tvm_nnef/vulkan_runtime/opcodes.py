"""The numbers of SPIR-V that the generator uses, by the names in its specification."""

from __future__ import annotations

from enum import IntEnum

MAGIC = 0x07230203
VERSION = 0x00010300
"""SPIR-V 1.3, which every driver for Vulkan 1.1 accepts."""


class Op(IntEnum):
    """Instructions."""

    Name = 5
    Extension = 10
    ExtInstImport = 11
    ExtInst = 12
    MemoryModel = 14
    EntryPoint = 15
    ExecutionMode = 16
    Capability = 17
    TypeVoid = 19
    TypeBool = 20
    TypeInt = 21
    TypeFloat = 22
    TypeVector = 23
    TypeArray = 28
    TypeRuntimeArray = 29
    TypeStruct = 30
    TypePointer = 32
    TypeFunction = 33
    ConstantTrue = 41
    ConstantFalse = 42
    Constant = 43
    Function = 54
    FunctionEnd = 56
    Variable = 59
    Load = 61
    Store = 62
    AccessChain = 65
    Decorate = 71
    MemberDecorate = 72
    ConvertFToU = 109
    ConvertFToS = 110
    ConvertSToF = 111
    ConvertUToF = 112
    UConvert = 113
    SConvert = 114
    FConvert = 115
    Bitcast = 124
    IAdd = 128
    FAdd = 129
    ISub = 130
    FSub = 131
    IMul = 132
    FMul = 133
    UDiv = 134
    SDiv = 135
    FDiv = 136
    UMod = 137
    IsNan = 156
    IsInf = 157
    LogicalEqual = 164
    LogicalNotEqual = 165
    LogicalOr = 166
    LogicalAnd = 167
    LogicalNot = 168
    Select = 169
    IEqual = 170
    INotEqual = 171
    UGreaterThan = 172
    SGreaterThan = 173
    UGreaterThanEqual = 174
    SGreaterThanEqual = 175
    ULessThan = 176
    SLessThan = 177
    ULessThanEqual = 178
    SLessThanEqual = 179
    FOrdEqual = 180
    FUnordNotEqual = 183
    FOrdLessThan = 184
    FOrdGreaterThan = 186
    FOrdLessThanEqual = 188
    FOrdGreaterThanEqual = 190
    ShiftRightLogical = 194
    ShiftRightArithmetic = 195
    ShiftLeftLogical = 196
    BitwiseOr = 197
    BitwiseXor = 198
    BitwiseAnd = 199
    Not = 200
    BitCount = 205
    ControlBarrier = 224
    Phi = 245
    LoopMerge = 246
    SelectionMerge = 247
    Label = 248
    Branch = 249
    BranchConditional = 250
    Return = 253


class Capability(IntEnum):
    """Features that a device has to support."""

    Shader = 1
    Float16 = 9
    Float64 = 10
    Int64 = 11
    Int16 = 22
    Int8 = 39
    StorageBuffer16BitAccess = 4433
    StorageBuffer8BitAccess = 4448
    SignedZeroInfNanPreserve = 4466


EXTENSIONS = {
    Capability.StorageBuffer8BitAccess: "SPV_KHR_8bit_storage",
    Capability.SignedZeroInfNanPreserve: "SPV_KHR_float_controls",
}
"""The extensions that name capabilities which SPIR-V 1.3 does not have."""


class StorageClass(IntEnum):
    """The kinds of memory of variables."""

    Input = 1
    Uniform = 2
    Workgroup = 4
    Function = 7
    PushConstant = 9
    StorageBuffer = 12


class Decoration(IntEnum):
    """Properties of ids."""

    Block = 2
    ArrayStride = 6
    BuiltIn = 11
    Binding = 33
    DescriptorSet = 34
    Offset = 35
    NoContraction = 42


class BuiltIn(IntEnum):
    """Variables that a device sets."""

    WorkgroupId = 26
    LocalInvocationId = 27


class ExecutionMode(IntEnum):
    """Properties of an entry point."""

    LocalSize = 17
    SignedZeroInfNanPreserve = 4461


class Glsl(IntEnum):
    """Functions of the set ``GLSL.std.450``."""

    RoundEven = 2
    Trunc = 3
    FAbs = 4
    SAbs = 5
    Floor = 8
    Ceil = 9
    Sin = 13
    Cos = 14
    Tan = 15
    Asin = 16
    Acos = 17
    Atan = 18
    Sinh = 19
    Cosh = 20
    Tanh = 21
    Asinh = 22
    Acosh = 23
    Atanh = 24
    Atan2 = 25
    Pow = 26
    Exp = 27
    Log = 28
    Exp2 = 29
    Log2 = 30
    Sqrt = 31
    InverseSqrt = 32
    Fma = 50


WORKGROUP_SCOPE = 2
ACQUIRE_RELEASE_SHARED = 0x8 | 0x100
"""Memory semantics of a barrier: acquire and release of the memory that a workgroup shares."""

COMPUTE = 5
"""The execution model of compute shaders."""
