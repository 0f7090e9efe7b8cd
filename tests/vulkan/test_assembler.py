"""The assembler: words as the specification of SPIR-V lays them out."""

from __future__ import annotations

import pytest

from tvm_nnef.spirv.assembler import Assembler
from tvm_nnef.vulkan_runtime.opcodes import Op, StorageClass


def instructions(words: list[int]) -> list[tuple[int, list[int]]]:
    """The opcode and operands of each instruction after the header of five words."""
    found, position = [], 5
    while position < len(words):
        length = words[position] >> 16
        found.append((words[position] & 0xFFFF, words[position + 1 : position + length]))
        position += length
    assert position == len(words)
    return found


def test_a_module_begins_with_its_header_and_capabilities() -> None:
    words = Assembler().words("main", [64, 1, 1])
    assert words[:3] == [0x07230203, 0x00010300, 0] and words[4] == 0
    listed = instructions(words)
    ids = [operand for op, operands in listed if op == Op.Label for operand in operands]
    assert words[3] > max(ids)
    assert [op for op, _ in listed[:3]] == [Op.Capability, Op.ExtInstImport, Op.MemoryModel]
    assert (Op.ExecutionMode, [2, 17, 64, 1, 1]) in listed


@pytest.mark.parametrize(
    ("text", "words"),
    [("", [0]), ("abc", [0x00636261]), ("abcd", [0x64636261, 0]), ("é", [0x0000A9C3])],
)
def test_text_ends_with_zero_in_whole_words(text: str, words: list[int]) -> None:
    code = Assembler()
    code.name(7, text)
    assert (Op.Name, [7, *words]) in instructions(code.words("main", [1, 1, 1]))


def test_types_and_constants_are_written_once() -> None:
    code = Assembler()
    assert code.scalar("int32") == code.scalar("int32") != code.scalar("uint32")
    assert code.constant("int32", 3) == code.constant("int32", 3) != code.constant("int32", 4)
    assert code.constant("bool", True) != code.constant("bool", False)
    pointer = code.pointer(StorageClass.Function, code.scalar("float32"))
    assert pointer == code.pointer(StorageClass.Function, code.scalar("float32"))


@pytest.mark.parametrize(
    ("dtype", "value", "words"),
    [
        ("int8", -1, [0xFFFFFFFF]),
        ("uint16", 0xFFFF, [0xFFFF]),
        ("int64", -2, [0xFFFFFFFE, 0xFFFFFFFF]),
        ("uint64", 2**63, [0, 0x80000000]),
        ("float16", 1.0, [0x3C00]),
        ("float32", -0.0, [0x80000000]),
        ("float32", float("inf"), [0x7F800000]),
        ("float64", 1.0, [0, 0x3FF00000]),
    ],
)
def test_constants_have_the_bits_of_their_dtype(dtype: str, value: float, words: list[int]) -> None:
    code = Assembler()
    made = code.constant(dtype, value)
    listed = instructions(code.words("main", [1, 1, 1]))
    assert (Op.Constant, [code.scalar(dtype), made, *words]) in listed


def test_numbers_of_other_widths_need_capabilities() -> None:
    code = Assembler()
    for dtype in ("int64", "uint16", "float16"):
        code.scalar(dtype)
    code.storage_buffer("uint8", 0)
    listed = instructions(code.words("main", [1, 1, 1]))
    needed = {operands[0] for op, operands in listed if op == Op.Capability}
    # Shader, Float16, Int64, Int16, Int8, StorageBuffer8BitAccess, SignedZeroInfNanPreserve
    assert needed == {1, 9, 11, 22, 39, 4448, 4466}
    assert sum(op == Op.Extension for op, _ in listed) == 2
