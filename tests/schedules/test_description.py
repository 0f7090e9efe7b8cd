"""Sizes of a CPU, from its target alone; and tiles, which must fit its registers."""

from __future__ import annotations

import pytest

from tvm_nnef.compilation.target import resolve
from tvm_nnef.schedules.cpu import tiles
from tvm_nnef.schedules.cpu.description import describe

TARGETS = {
    "x86-64-v4": (512, 32),
    "x86-64-v3": (256, 16),
    '{"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "znver4"}': (512, 32),
    '{"kind": "llvm", "mtriple": "x86_64-linux-gnu"}': (128, 16),
    "aarch64": (128, 32),
    "armv7": (128, 16),
    "riscv64": (128, 16),
    "wasm32": (128, 16),
    "c": (128, 16),
}


@pytest.mark.parametrize("name", TARGETS)
def test_vectors_and_registers(name):
    description = describe(resolve(name))
    assert (description.vector_bits, description.registers) == TARGETS[name]
    assert description.lanes(32) == description.vector_bits // 32
    assert description.lanes(1) > 0


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("rows", [1, 2, 7, 49, 3136])
@pytest.mark.parametrize("columns", [1, 3, 10, 64, 1000])
def test_tiles_fit_the_registers_and_the_extents(name, rows, columns):
    description = describe(resolve(name))
    lanes = description.lanes(32)
    width = tiles.packed_width(rows, columns, 32, description)
    vectors = -(-width // lanes)
    height = tiles.rows_for(rows, vectors, description)
    assert 1 <= height <= rows
    assert height * vectors + vectors + 1 <= description.registers
    assert width % lanes == 0 or columns <= width < 2 * max(columns, 1)


def test_rows_that_the_cache_maps_to_one_place_are_few():
    description = describe(resolve("x86-64-v4"))
    assert tiles.rows_for(3136, 2, description, row_bytes=4096) < description.ways
    assert tiles.rows_for(3136, 2, description, row_bytes=4160) > description.ways
