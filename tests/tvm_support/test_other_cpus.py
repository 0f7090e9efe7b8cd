"""What TVM and LLVM generate for other CPUs, where the one misleads the other."""

from __future__ import annotations

from typing import Any

import pytest

import tvm_nnef

CAST = """
import layout;
graph G {
    @input { x: int[5]; }
    @output { y: real[5]; }
    @compose { y = layout.cast<real>(x); }
}
"""
UPSAMPLE = """
import image;
graph G {
    @input { x: real[1, 4, 6, 6]; }
    @output { y: real[1, 4, 12, 18]; }
    @compose {
        y = image.linear_upsample{axes=[-1, 2], factor=[3, 2], symmetric=false,
                                  replicate_border=false}(x);
    }
}
"""


def source(model: str, target: str, form: str, **options: Any) -> str:
    library = tvm_nnef.build(model, target, progress=False, **options)._program.files.library
    return str(library.mod.imports[0].inspect_source(form))


@pytest.mark.parametrize("triple", ["armv7l-linux-gnueabihf", "armv7l-unknown-linux-gnueabihf"])
def test_helper_functions_of_32_bit_arm_are_those_of_its_abi(triple: str) -> None:
    """The names of libgcc would be called with floats in other registers than it reads."""
    target = f"llvm -mtriple={triple} -mfloat-abi=hard -mattr=+neon"
    text = source(CAST, target, "asm", dtypes={"int": "int64"})
    assert "__aeabi_l2f" in text
    assert "__floatdisf" not in text


@pytest.mark.parametrize("target", ["riscv64:+v", "aarch64:+sve"])
def test_vectors_have_the_lanes_of_the_schedule(target: str) -> None:
    assert "<vscale x" not in source(UPSAMPLE, target, "ll")
