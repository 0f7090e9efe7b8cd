"""Tensors without elements on a GPU, of static and of dynamic shapes: what NumPy computes.

The simulated GPU raises an exception for a launch without blocks.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import tvm_ffi
from tvm import relax, tirx
from tvm.ir import Call

import tvm_nnef
from tvm_nnef.compilation.passes import passes
from tvm_nnef.compilation.target import resolve
from tvm_nnef.tir.expressions import nodes
from tvm_nnef.tvm_support.compat import prim_functions

Values = Mapping[str, Any]
"""The inputs by name; ``p`` and ``q`` are ``x`` and ``y`` above 0."""

Row = tuple[str, str, Callable[[Values], Any]]
"""An operation, the type of its result, and what NumPy computes."""

SHAPES: Mapping[str, Sequence[str]] = {
    "x": "abc", "y": "abc", "row": "1b1", "m": "acd", "table": "eb", "image": "a3hw",
    "filter": "e333", "few": "ab",
}  # fmt: skip
"""The dimensions of the inputs: letters, whose sizes vary, and static sizes."""

SIZES = (0, 0, 0, 1, 3, 5, 40)

STARTS = {"sum": 0, "prod": 1, "max": -np.inf, "min": np.inf}
AXES: Sequence[tuple[int, ...]] = ((0,), (1,), (2,), (0, 2), (0, 1, 2))


def reduction(name: str, axes: tuple[int, ...]) -> Row:
    made = f"math.{name}_reduce{{axes=[{', '.join(map(str, axes))}]}}(x)"
    start = STARTS[name]
    ufunc = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}[name]
    return (
        made,
        "real[~,~,~]",
        lambda v: ufunc.reduce(v["x"], axis=axes, keepdims=True, initial=start),
    )


def softmax(x: Any, axis: int) -> Any:
    powers = np.exp(x - x.max(axis, keepdims=True, initial=-np.inf))
    return powers / powers.sum(axis, keepdims=True)


def convolution(image: Any, filters: Any) -> Any:
    windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3), (2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, filters)


CUBE, ANY = "real[~,~,~]", "real[~,~]"
ROWS: list[Row] = [
    ("math.exp(x)", CUBE, lambda v: np.exp(v["x"])),
    ("math.add(x, row)", CUBE, lambda v: v["x"] + v["row"]),
    ("math.select(p, x, y)", CUBE, lambda v: np.where(v["p"], v["x"], v["y"])),
    *(reduction(name, axes) for name in STARTS for axes in AXES),
    ("math.mean_reduce{axes=[1]}(x)", CUBE, lambda v: v["x"].mean(1, keepdims=True)),
    ("math.any_reduce{axes=[0, 2]}(p)", "bool[~,~,~]", lambda v: v["p"].any((0, 2), keepdims=True)),
    ("math.all_reduce{axes=[1]}(p)", "bool[~,~,~]", lambda v: v["p"].all(1, keepdims=True)),
    ("math.cumsum{axis=1}(x)", CUBE, lambda v: v["x"].cumsum(1)),
    ("math.cumsum{axis=0}(few)", ANY, lambda v: v["few"].cumsum(0)),
    ("linalg.matmul(x, m)", CUBE, lambda v: v["x"] @ v["m"]),
    ("linalg.matmul{transB=true}(few, table)", ANY, lambda v: v["few"] @ v["table"].T),
    ("nn.softmax{axes=[-1]}(x)", CUBE, lambda v: softmax(v["x"], -1)),
    ("nn.softmax{axes=[1]}(x)", CUBE, lambda v: softmax(v["x"], 1)),
    ("nn.conv{padding=0}(image, filter)", "real[~,~,~,~]",
     lambda v: convolution(v["image"], v["filter"])),
    ("nn.max_pool{axes=[2, 3], size=[2, 2], stride=[1, 1], padding=0}(image)", "real[~,~,~,~]",
     lambda v: np.lib.stride_tricks.sliding_window_view(v["image"], (2, 2), (2, 3)).max((4, 5))),
    ("layout.transpose{perm=[2, 0, 1]}(x)", CUBE, lambda v: v["x"].transpose(2, 0, 1)),
    ("layout.concat{axis=1}([x, y])", CUBE, lambda v: np.concatenate([v["x"], v["y"]], 1)),
    ("layout.stack{axis=1}([x, y])", "real[~,~,~,~]", lambda v: np.stack([v["x"], v["y"]], 1)),
    ("layout.slice{axes=[1], begin=[1], end=[3]}(x)", CUBE, lambda v: v["x"][:, 1:3]),
    ("layout.pad{axes=[2], padding=[1, 2]}(x)", CUBE,
     lambda v: np.pad(v["x"], ((0, 0), (0, 0), (1, 2)))),
    ("layout.tile{repeats=[2, 1, 3]}(x)", CUBE, lambda v: np.tile(v["x"], (2, 1, 3))),
    ("layout.gather{axis=1}(x, i)", "real[~,~,~]", lambda v: v["x"][:, v["i"]]),
    ("layout.nonzero(few)", "int[~,~]", lambda v: np.stack(np.nonzero(v["few"]))),
    ("layout.flatten(x)", "real[~]", lambda v: v["x"].reshape(-1)),
]  # fmt: skip

IMPORTS = "import math; import layout; import linalg; import nn;"


def text(sizes: Mapping[str, int], *, dynamic: bool) -> str:
    """The graph of all rows, with static sizes or with symbols."""

    def declared(letter: str) -> str:
        if letter.isdigit():
            return letter
        return f"{letter}|{max(SIZES)}" if dynamic else str(sizes[letter])

    inputs = [f"{name}: real[{','.join(map(declared, shape))}];" for name, shape in SHAPES.items()]
    outputs = [f"y{number}: {kind};" for number, (_, kind, _) in enumerate(ROWS)]
    made = [f"y{number} = {operation};" for number, (operation, _, _) in enumerate(ROWS)]
    blocks = {
        "input": [*inputs, f"i: int[{declared('k')}];"],
        "output": outputs,
        "compose": ["p = math.gt(x, 0.0);", *made],
    }
    parts = [f"@{name} {{ {' '.join(lines)} }}" for name, lines in blocks.items()]
    return f"{IMPORTS} graph G {{ {' '.join(parts)} }}"


def random_sizes(generator: np.random.Generator) -> dict[str, int]:
    """Sizes of all letters: no index of nothing, and images as large as the filter."""
    sizes = {letter: int(generator.choice(SIZES)) for letter in "abcdek"}
    sizes |= {letter: int(generator.integers(3, 6)) for letter in "hw"}
    return {**sizes, "k": sizes["k"] if sizes["b"] else 0}


def values(sizes: Mapping[str, int], generator: np.random.Generator) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, shape in SHAPES.items():
        extents = [sizes[each] if each in sizes else int(each) for each in shape]
        found[name] = generator.standard_normal(extents).astype("float32")
    return {**found, "i": generator.integers(0, sizes["b"] or 1, sizes["k"]).astype("int32")}


def check(executable: Any, given: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
    wide = {k: v.astype("float64") if v.dtype.kind == "f" else v for k, v in given.items()}
    wide["p"] = given["x"] > 0
    found = executable(*given.values())
    for (operation, _, expected), actual in zip(ROWS, found, strict=True):
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the mean of nothing
            wanted = np.asarray(expected(wide))
        assert actual.shape == wanted.shape, (operation, sizes)
        scale = np.abs(wanted[np.isfinite(wanted)]).max(initial=1)
        np.testing.assert_allclose(
            np.asarray(actual, "float64"),
            wanted,
            1e-4,
            2e-5 * scale,
            err_msg=f"{operation} {sizes}",
        )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_static_shapes(seed: int, simulated_gpu: Any) -> None:
    generator = np.random.default_rng(seed)
    sizes = random_sizes(generator)
    simulated_gpu(reverse=seed % 2 == 1)
    executable = tvm_nnef.build(text(sizes, dynamic=False), progress=False)
    check(executable, values(sizes, generator), sizes)


@pytest.mark.slow
@pytest.mark.parametrize("reverse", [False, True])
def test_dynamic_shapes(reverse: bool, simulated_gpu: Any) -> None:
    simulated_gpu(reverse=reverse)
    executable = tvm_nnef.build(text({}, dynamic=True), progress=False)
    generator = np.random.default_rng(0)
    for _ in range(40):
        sizes = random_sizes(generator)
        check(executable, values(sizes, generator), sizes)


FEW = """
import math;
graph G {
    @input { x: real[n|9, 4]; z: real[0, 3]; }
    @output { y: real[n|9, 4]; s: real[4]; e: real[0, 3]; m: real[3]; }
    @compose {
        y = math.exp(x); s = math.sum_reduce{axes=[0], squeeze=true}(x);
        e = math.exp(z); m = math.max_reduce{axes=[0], squeeze=true}(z);
    }
}
"""


def test_nothing_is_launched_for_no_elements(simulated_gpu: Any) -> None:
    simulated_gpu()
    executable, none = tvm_nnef.build(FEW, progress=False), np.zeros((0, 3), "float32")
    for size in (2, 0):
        y, s, e, m = executable(np.ones((size, 4), "float32"), none)
        assert y.shape == (size, 4) and e.shape == (0, 3)
        assert np.array_equal(s, [size] * 4) and np.array_equal(m, [-np.inf] * 3)


def test_the_simulated_gpu_rejects_what_no_gpu_launches(gpu: Any) -> None:
    with pytest.raises(RuntimeError, match="a launch of 0 blocks"):
        tvm_ffi.get_global_func(gpu.LAUNCH)(0)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("target", ["cuda", "vulkan"])
@pytest.mark.parametrize(
    ("operator", "size"),
    [(relax.op.exp, 0), *((each, None) for each in (relax.op.exp, relax.op.sort, relax.op.cumsum))],
)
def test_each_launch_of_the_host_has_blocks_and_threads(
    operator: Any, size: int | None, target: str
) -> None:
    """Those of kernels that TVM has bound too, which are sorting and prefix sums."""
    builder, rows = relax.BlockBuilder(), tirx.Var("n", "int64") if size is None else size
    x = relax.Var("x", relax.TensorType((rows, 100), "float32"))
    with builder.function("main", [x], attrs={"num_input": 1}):
        with builder.dataflow():
            more = {} if operator is relax.op.exp else {"axis": 1}
            output = builder.emit_output(operator(x, **more))
        builder.emit_func_output(output)
    module = builder.get()
    for each in passes(resolve(target)):
        module = each.run(module)
        if each.name == "split_device_code":
            break
    found = [each for f in prim_functions(module).values() for each in unsure(f.body, frozenset())]
    assert bool(found) == (size is None) and not any(found)


def unsure(node: Any, above_zero: frozenset[str]) -> Iterator[list[str]]:
    """For each launch of a host function its extents that may be 0, as text."""
    if isinstance(node, tirx.IfThenElse):
        tested = {str(each.a) for each in nodes(node.condition, tirx.GT)}
        yield from unsure(node.then_case, above_zero | tested)
    elif isinstance(node, tirx.SeqStmt):
        for each in node.seq:
            yield from unsure(each, above_zero)
    elif isinstance(node, tirx.Evaluate) and isinstance(node.value, Call):
        if str(node.value.op.name) == "tirx.call_ffi_kernel":
            extents = list(node.value.args)[-len(node.value.attrs.launch_params) :]
            dynamic = [str(e) for e in extents if not isinstance(e, tirx.IntImm) or e.value < 1]
            yield [each for each in dynamic if each not in above_zero]
    elif hasattr(node, "body"):
        yield from unsure(node.body, above_zero)
