"""Kernels as TVM packs them."""

from __future__ import annotations

import struct

import pytest

from tvm_nnef.vulkan_runtime.library import pack, unpack
from tvm_nnef.vulkan_runtime.shader import Shader

SHADERS = [
    Shader("add", (1, 2, 0xFFFFFFFF), ("handle", "handle", "int64"), ("blockIdx.x",)),
    Shader("many", (7,), ("handle", *["int32"] * 17), ("blockIdx.x", "threadIdx.x")),
]


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def test_a_module_is_its_format_its_functions_and_their_shaders() -> None:
    handle, integer = struct.pack("<BBH", 3, 64, 1), struct.pack("<BBH", 0, 64, 1)
    number = struct.Struct("<Q").pack
    expected = b"".join(
        [
            *(text("vulkan"), number(1), text("add"), text("add")),
            *(number(3), handle, handle, integer),
            *(number(1), text("blockIdx.x")),
            *(number(3), bytes(12)),
            *(number(1), text("add"), number(24)),
            *(struct.pack("<I", 0), number(3), struct.pack("<3I", 1, 2, 0xFFFFFFFF)),
        ]
    )
    assert pack(SHADERS[:1]) == expected


def test_what_was_packed_is_unpacked() -> None:
    assert unpack(pack(SHADERS)) == SHADERS


def test_too_many_scalars_lie_in_a_uniform_buffer() -> None:
    assert not SHADERS[0].uses_uniform_buffer and SHADERS[1].uses_uniform_buffer
    body = struct.pack("<IQI", 1, 1, 7)
    assert pack(SHADERS).endswith(struct.pack("<Q", len(body)) + body)


@pytest.mark.parametrize("cut", [0, 3, 20, 100])
def test_damaged_modules_are_an_error(cut: int) -> None:
    with pytest.raises(ValueError, match="not kernels for Vulkan"):
        unpack(pack(SHADERS)[:cut])
