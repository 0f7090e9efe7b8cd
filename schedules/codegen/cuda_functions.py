"""Functions in CUDA C that kernels call, for instructions that TVM has no expressions for.

Input: the elements that a thread copies or multiplies. Output: a statement that calls a function,
which is compiled with the kernel: copies of vectors, asynchronous copies to shared memory, and
products of fragments on tensor cores.
"""

from __future__ import annotations

from typing import Literal

from tvm import tirx

from tvm_nnef.schedules.machine import bits_of
from tvm_nnef.tvm_support.compat import PrimExpression, cuda_call, dtype_of

_VECTORS = {2: "unsigned short", 4: "unsigned int", 8: "uint2", 16: "uint4"}
"""The types by which CUDA copies a number of bytes in one instruction."""

ASYNC_BYTES = (4, 8, 16)
"""The numbers of bytes that an asynchronous copy can have."""

TENSOR_DTYPES = {"float16": "f16", "bfloat16": "bf16"}
"""The dtypes that tensor cores multiply, and add in float32, by their names in instructions."""

_COPY_ASYNC = """
__device__ __forceinline__ void copy_{size}_bytes_async(void* to, const void* from, int inside) {{
  asm volatile("cp.async.{cached}.shared.global [%0], [%1], {size}, %2;"
               :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "r"(inside ? {size} : 0)
               : "memory");
}}
"""
"""The asynchronous copy; for elements outside, it stores zeros and reads nothing."""

_COMMIT = """
__device__ __forceinline__ void end_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
"""
_WAIT = """
__device__ __forceinline__ void wait_for_copies_{count}() {{
  asm volatile("cp.async.wait_group {count};" ::: "memory");
}}
"""
_CLEAR = """
__device__ __forceinline__ void clear_vector(void* to) { *(uint4*)to = make_uint4(0, 0, 0, 0); }
"""
"""Zeros for a vector that is outside."""

_LOAD = """
__device__ __forceinline__ void {name}(void* fragment, const void* tile, int stride) {{
  int lane = threadIdx.x & 31, near = lane & 7, {inner} = lane & 8, {outer} = (lane & 16) >> 1;
  const unsigned short* row = (const unsigned short*)tile + {row};
  unsigned* words = (unsigned*)fragment;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4{form}.shared.b16 {{%0, %1, %2, %3}}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory");
}}
"""
_ROWS = {
    "steps": {"row": "(near + position) * stride + step", "form": ""},
    "positions": {"row": "(near + step) * stride + position", "form": ".trans"},
}
_ORDERS = {
    "left": {"inner": "position", "outer": "step"},
    "right": {"inner": "step", "outer": "position"},
}
"""The load of a warp's fragment: 16 positions, 16 steps, from shared memory along steps or
positions.

It has four parts of 8 x 8, in the order of the instructions: adjacent parts of their operands are
in consecutive registers.
"""

_MULTIPLY = """
__device__ __forceinline__ void multiply_{dtype}(float* low, float* high, const void* left,
                                                 const void* right) {{
  const unsigned *a = (const unsigned*)left, *b = (const unsigned*)right;
#if __CUDA_ARCH__ >= 800
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32 "
               "{{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, {{%8, %9}}, {{%0, %1, %2, %3}};"
               : "+f"(low[0]), "+f"(low[1]), "+f"(high[0]), "+f"(high[1])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  for (int half = 0; half < 4; half += 2)
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.{kind}.{kind}.f32 "
                 "{{%0, %1, %2, %3}}, {{%4, %5}}, {{%6}}, {{%0, %1, %2, %3}};"
                 : "+f"(low[0]), "+f"(low[1]), "+f"(high[0]), "+f"(high[1])
                 : "r"(a[half]), "r"(a[half + 1]), "r"(b[half / 2]));
#endif
}}
"""


def copied(to: PrimExpression, value: PrimExpression, lanes: int) -> tirx.Stmt:
    """Return the copy of some adjacent elements, given the first ones, which are aligned."""
    size = _bytes(value, lanes)
    kind, name = _VECTORS[size], f"copy_{size}_bytes"
    body = f"{{ *({kind}*)to = *(const {kind}*)from; }}"
    source = f"\n__device__ __forceinline__ void {name}(void* to, const void* from) {body}\n"
    return cuda_call(name, source, tirx.address_of(to), tirx.address_of(value))


def cleared(to: PrimExpression) -> tirx.Stmt:
    """Return the store of zeros to a vector of 16 bytes, given its first element."""
    return cuda_call("clear_vector", _CLEAR, tirx.address_of(to))


def copied_async(
    to: PrimExpression, load: PrimExpression, lanes: int, inside: PrimExpression | None
) -> tirx.Stmt:
    """Return an asynchronous copy of a vector to shared memory, given its first element; or
    zeros.
    """
    size = _bytes(load, lanes)
    source = _COPY_ASYNC.format(size=size, cached="cg" if size == ASYNC_BYTES[-1] else "ca")
    flag = tirx.const(1, "int32") if inside is None else tirx.Cast("int32", inside)
    addresses = tirx.address_of(to), tirx.address_of(load)
    return cuda_call(f"copy_{size}_bytes_async", source, *addresses, flag)


def end_copies() -> tirx.Stmt:
    """Return the end of a group of a thread's asynchronous copies."""
    return cuda_call("end_copies", _COMMIT)


def wait_for_copies(count: int) -> tirx.Stmt:
    """Return a wait until at most ``count`` groups of copies are pending."""
    return cuda_call(f"wait_for_copies_{count}", _WAIT.format(count=count))


def loaded_fragment(
    side: Literal["left", "right"],
    along: Literal["steps", "positions"],
    fragment: PrimExpression,
    tile: PrimExpression,
    stride: int,
) -> tirx.Stmt:
    """Return a warp's load of 16 positions and 16 steps of a side of a product from shared
    memory.
    """
    name = f"load_{side}_along_{along}"
    source = _LOAD.format(name=name, **_ROWS[along], **_ORDERS[side])
    addresses = tirx.address_of(fragment), tirx.address_of(tile)
    return cuda_call(name, source, *addresses, tirx.const(stride, "int32"))


def multiplied_fragments(
    dtype: str,
    low: PrimExpression,
    high: PrimExpression,
    left: PrimExpression,
    right: PrimExpression,
) -> tirx.Stmt:
    """Return a warp's addition of products of 16 x 16 with 16 x 8 elements to float32 accumulators.

    Arguments are the first accumulators of a thread in the lower and the upper 8 rows, and the
    first elements of its fragments.
    """
    source = _MULTIPLY.format(dtype=dtype, kind=TENSOR_DTYPES[dtype])
    return cuda_call(f"multiply_{dtype}", source, *map(tirx.address_of, (low, high, left, right)))


def _bytes(value: PrimExpression, lanes: int) -> int:
    return lanes * bits_of(dtype_of(value)) // 8
