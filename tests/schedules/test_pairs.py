"""Products of small integers, two or four at once: exact for all that words hold, and no others."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tvm import relax

from tvm_nnef.compilation.passes import run_phases
from tvm_nnef.schedules.relax.ranges import range_of
from tvm_nnef.schedules.relax.rewriting import Operands

op = relax.op
X86 = {"kind": "llvm", "mtriple": "x86_64-linux-gnu"}
TARGETS = {
    "native": "native",
    "avx2": "x86-64-v3",
    "unknown": "llvm",
}


def product(weights, offset, turned=False):
    """A product of integers that are cast from 8 or 16 bits, less an offset."""

    def build(x):
        data = op.subtract(op.astype(x, "int32"), relax.const(offset, "int32"))
        filters = relax.const(weights.astype("int32"))
        return op.matmul(filters, data) if turned else op.matmul(data, filters)

    return build


@pytest.mark.sampled(3)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("depth", [2, 7, 64])
@pytest.mark.parametrize("turned", [False, True])
def test_products_are_exact_at_the_limits(kernels, target, depth, turned):
    generator = np.random.default_rng(depth)
    limits = np.array([-(1 << 15), (1 << 15) - 1, 0, -1], "int16")
    shapes = [(depth, 19), (23, depth)] if turned else [(23, depth), (depth, 19)]
    x, w = (generator.choice(limits, shape) for shape in shapes)
    mod = kernels.module(product(w, 0, turned), x.shape, dtype="int16")
    made = kernels.scheduled(mod, TARGETS[target])
    assert any("int16" in variable.name_hint for variable in made.get_global_vars())
    wide = [each.astype("int32") for each in (x, w)]
    expected = wide[1] @ wide[0] if turned else wide[0] @ wide[1]
    found = kernels.run(made, [x], TARGETS[target])
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("dtype", "offset", "weight", "paired"),
    [("uint8", 255, 1 << 14, True), ("uint16", 0, 1, False), ("int16", 1, 1, False),
     ("uint8", 0, 1 << 15, False), ("int32", 0, 1, False)],
)  # fmt: skip
def test_only_what_fits_is_paired(kernels, dtype, offset, weight, paired):
    build = product(np.full((8, 8), weight), offset)
    made = kernels.scheduled(kernels.module(build, (5, 8), dtype=dtype), "x86-64-v3")
    assert any("int16" in variable.name_hint for variable in made.get_global_vars()) is paired


@pytest.mark.parametrize("model", ["x86-64-v3", "x86-64-v4"])
def test_instructions_replace_multiplications(kernels, model):
    target = kernels.resolved({**X86, "mcpu": model})
    mod = kernels.module(product(np.ones((64, 64)), 3), (32, 64), dtype="uint8")
    library = run_phases(kernels.scheduled(mod, target), target, "bytecode", "code")
    text = library.mod.imports[0].inspect_source("asm")
    assert re.search(r"vpmaddwd|vpdpwssd", text)
    assert "vpmulld" not in text


def test_other_machines_multiply_as_they_can(kernels):
    mod = kernels.module(product(np.ones((64, 64)), 3), (32, 64), dtype="uint8")
    made = kernels.scheduled(mod, "aarch64")
    assert not any("int16" in variable.name_hint for variable in made.get_global_vars())


@pytest.mark.slow
def test_sums_of_sums_are_found_if_that_is_quick():
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((3,), "uint8"))
    with builder.function("main", [x]):
        total = builder.emit(op.subtract(op.astype(x, "int32"), relax.const(255, "int32")))
        ranges = []
        for _ in range(40):
            ranges.append(range_of(Operands(builder), total))
            total = builder.emit(op.add(total, total))
        builder.emit_func_output(total)
    assert ranges[:4] == [(-255 << n, 0) for n in range(4)]
    assert ranges[-1] is None


def test_integers_wrap_around_as_they_do_unscheduled(kernels):
    weights = np.random.default_rng(1).integers(-(1 << 31), 1 << 31, (7, 3, 2, 2)).astype("int32")

    def build(x):
        product = op.nn.conv2d(x, relax.const(weights), padding=[1, 1, 0, 0])
        scaled = op.multiply(product, relax.const(weights[:, :1, :1, 0].reshape(1, 7, 1, 1)))
        return op.add(
            scaled, op.multiply(relax.const(weights[0, 0, 0, 0]), relax.const(5, "int32"))
        )

    kind = ((2, 3, 9, 8), "int32")
    mod = kernels.functions({"f": (build, [kind])})
    machine = kernels.machine(kernels.scheduled(mod))
    kernels.compare([mod], machine, {"f": (build, [kind])})


def filters(channels, outputs, size, largest, groups=1):
    """Weights with as large sums of neighbours as bytes are multiplied with, and no larger ones."""
    shape = outputs, channels // groups, size, size
    weights = np.random.default_rng(3).integers(-largest, largest + 1, shape).astype("int32")
    weights[0], weights[1] = largest, -largest
    return weights


BYTES = {
    "largest sums": (8, 16, 3, 0, 64, 1, "int8"),
    "a zero point and padding": (8, 16, 3, 7, 64, 1, "int8"),
    "a zero point without padding": (16, 24, 1, 255, 64, 1, "int8"),
    "channels that fill no word": (6, 16, 3, 0, 64, 1, "int8"),
    "groups": (16, 16, 3, 3, 60, 2, "int8"),
    "sums that would saturate": (8, 16, 3, 0, 65, 1, "int16"),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", BYTES)
def test_convolutions_of_bytes_are_exact(kernels, case):
    channels, outputs, size, zero, largest, groups, name = BYTES[case]
    weights = filters(channels, outputs, size, largest, groups)

    def build(x):
        data = op.subtract(op.astype(x, "int32"), relax.const(zero, "int32"))
        return op.nn.conv2d(data, relax.const(weights), padding=size // 2, groups=groups)

    x = np.random.default_rng(4).integers(0, 256, (2, channels, 9, 7)).astype("uint8")
    x[0] = 255
    mod = kernels.module(build, x.shape, dtype="uint8")
    made = kernels.scheduled(mod, "x86-64-v3")
    assert any(f"conv_{name}" in variable.name_hint for variable in made.get_global_vars())
    edge = (size // 2,) * 2
    padded = np.pad(x.astype("int64") - zero, ((0, 0), (0, 0), edge, edge))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (size, size), axis=(2, 3))
    parts = zip(np.split(windows, groups, 1), np.split(weights, groups), strict=True)
    expected = np.concatenate([np.einsum("nchwij,ocij->nohw", *part) for part in parts], 1)
    np.testing.assert_array_equal(kernels.run(made, [x], "x86-64-v3"), expected)


@pytest.mark.parametrize("largest", [64, 127])
def test_products_of_bytes_are_exact(kernels, largest):
    weights = filters(64, 19, 1, largest)[..., 0, 0].T
    x = np.random.default_rng(4).integers(0, 256, (13, 64)).astype("uint8")
    mod = kernels.module(product(weights, 9), x.shape, dtype="uint8")
    made = kernels.scheduled(mod, "x86-64-v3")
    name = "matmul_int8" if largest == 64 else "matmul_int16"
    assert any(name in variable.name_hint for variable in made.get_global_vars())
    found = kernels.run(made, [x], "x86-64-v3")
    np.testing.assert_array_equal(found, (x.astype("int32") - 9) @ weights)


@pytest.mark.parametrize(
    ("model", "instruction"),
    [
        ({**X86, "mcpu": "x86-64-v3"}, "vpmaddwd"),
        ({**X86, "mcpu": "alderlake"}, "vpdpbusd"),
        ({**X86, "mcpu": "icelake-server"}, "vpdpbusd.*zmm"),
        ({"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "neoverse-v1"}, "usdot"),
        ({"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "neoverse-n1"}, "sdot"),
        ("wasm32", "i32x4.dot_i16x8_s"),
    ],
)
def test_machines_multiply_bytes_by_their_instruction(kernels, model, instruction):
    target = kernels.resolved(model)
    mod = kernels.module(product(filters(64, 64, 1, 127)[..., 0, 0], 3), (32, 64), dtype="uint8")
    library = run_phases(kernels.scheduled(mod, target), target, "bytecode", "code")
    text = library.mod.imports[0].inspect_source("asm")
    assert re.search(instruction, text)
    assert "vpmulld" not in text
