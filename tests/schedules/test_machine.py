"""Machine models, from targets alone; and tiles, which must fit the registers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tvm_nnef import schedules
from tvm_nnef.compilation.target import resolve
from tvm_nnef.schedules.cpu.tile import tile_sizes
from tvm_nnef.schedules.machine import cpu_model
from tvm_nnef.schedules.machine.model import Special

TARGETS = {
    "x86-64-v4": (512, 32),
    "x86-64-v3": (256, 16),
    '{"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "znver4"}': (512, 32),
    '{"kind": "llvm", "mtriple": "x86_64-linux-gnu"}': (128, 16),
    "aarch64": (128, 32),
    "armv7": (128, 16),
    "riscv64": (128, 16),
    "riscv64:+v": (128, 32),
    "riscv64:+v,+zvl256b": (256, 32),
    "riscv64:+v,+zvl512b": (512, 32),
    "aarch64:neoverse-v2": (128, 32),
    "armv7:-neon": (128, 16),
    "powerpc64le": (128, 32),
    "wasm32": (128, 16),
    "c": (128, 16),
}


@pytest.mark.parametrize("name", TARGETS)
def test_vectors_and_registers(name):
    machine = cpu_model(resolve(name))
    assert (machine.vector_bits, machine.registers) == TARGETS[name]
    assert machine.lanes(32) == machine.vector_bits // 32
    assert machine.lanes(1) > 0


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("rows", [1, 2, 7, 49, 3136])
@pytest.mark.parametrize("columns", [1, 3, 10, 64, 1000])
def test_tiles_fit_the_registers_and_the_dimensions(name, rows, columns):
    machine = cpu_model(resolve(name))
    lanes = machine.lanes(32)
    width = tile_sizes.packed_width(rows, columns, 32, machine)
    vectors = -(-width // lanes)
    height = tile_sizes.rows_for(rows, vectors, machine)
    assert 1 <= height <= rows
    assert height * vectors + vectors + 1 <= machine.registers
    assert width % lanes == 0 or columns <= width < 2 * max(columns, 1)


def test_rows_that_the_cache_maps_to_one_set_are_few():
    machine = cpu_model(resolve("x86-64-v4"))
    assert tile_sizes.rows_for(3136, 2, machine, row_bytes=4096) < machine.l1_ways
    assert tile_sizes.rows_for(3136, 2, machine, row_bytes=4160) > machine.l1_ways


@pytest.mark.parametrize("rows", [13, 14])
def test_tiles_multiply_each_element_that_is_broadcast_by_several_vectors(rows):
    machine = cpu_model(resolve("x86-64-v3"))
    width = tile_sizes.packed_width(rows, 256, 32, machine)
    # One vector would fit all rows, at half the speed: a broadcast takes as long as two products.
    assert width // machine.lanes(32) >= 2


def test_special_instructions_are_those_of_the_features():
    wide, older, generic = (cpu_model(resolve(n)) for n in ("x86-64-v4", "x86-64-v3", "c"))
    assert wide.widest(Special.DOT_INT16) == 16 and wide.intrinsic(Special.SCALE, 16)
    assert older.widest(Special.DOT_INT16) == 8 and not older.intrinsic(Special.SCALE, 16)
    assert generic.widest(Special.DOT_INT16) == generic.widest(Special.SCALE) == 0


def test_fewer_elements_pay_for_threads_where_vectors_are_narrow():
    wide, older = (cpu_model(resolve(name)) for name in ("x86-64-v4", "x86-64-v3"))
    assert wide.parallel_work(4) == 2 * older.parallel_work(4)
    assert wide.parallel_work(1) == 4 * wide.parallel_work(4)


INSTRUCTIONS = re.compile(
    r"avx|\bsse\d|neon|cp\.async|ldmatrix|\bmma\b|pmadd|llvm\.x86", re.IGNORECASE
)


def sources():
    """The texts of the files of schedules, by their paths."""
    root = Path(schedules.__file__).parent
    return {path.relative_to(root): path.read_text("utf-8") for path in root.rglob("*.py")}


def test_machine_models_and_code_generation_alone_name_instruction_sets():
    others = {p: t for p, t in sources().items() if p.parts[0] not in ("machine", "codegen")}
    assert len(others) > 50 and not [p for p, text in others.items() if INSTRUCTIONS.search(text)]


def test_what_a_kernel_computes_is_read_without_a_machine_model():
    analysis = {p: t for p, t in sources().items() if p.parts[0] == "analysis"}
    assert analysis and not [p for p, text in analysis.items() if "schedules.machine" in text]
