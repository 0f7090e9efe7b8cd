"""Argmax and argmin against NumPy and ONNX Runtime, with ties, infinities and NaN."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tvm import relax, te, tirx

import tvm_nnef
from tvm_nnef.tir.min_max import arg_reduction
from tvm_nnef.tvm_support.compat import runtime_tensor

pytestmark = pytest.mark.slow

SLOW = {"cpu.fallback", "ordered"}


def search(axes, largest=True, dtype="int64", before=None):
    """What builds an annotated reduction over neighbouring dimensions of an input."""

    def build(x):
        def found(data):
            shape = [size for n, size in enumerate(data.shape) if n not in axes]
            neighbours, kept = range(axes[0], axes[-1] + 1), range(len(shape))
            return arg_reduction(data, neighbours, shape, kept, dtype, largest=largest)

        builder = relax.BlockBuilder.current()
        operand = x if before is None else builder.emit(before(x))
        return builder.call_te(found, operand)

    return build


def expected(x, axes, largest=True):
    """The same with NumPy: NaN counts in the first place only."""
    kept = [n for n in range(x.ndim) if n not in axes]
    if not x.size:
        return np.zeros([x.shape[n] for n in kept])
    rows = x.transpose([*kept, *axes]).reshape([*(x.shape[n] for n in kept), -1])
    if x.dtype.kind != "f":
        return rows.argmax(-1) if largest else rows.argmin(-1)
    cleaned = np.where(np.isnan(rows), -np.inf if largest else np.inf, rows)
    found = cleaned.argmax(-1) if largest else cleaned.argmin(-1)
    return np.where(np.isnan(rows[..., 0]), 0, found)


def awkward(shape, dtype, seed=0):
    """Few different values, so that most are equal to others; for seed 2 many different ones."""
    generator = np.random.default_rng(seed)
    if not dtype.startswith("float"):
        kind, few = np.iinfo(dtype), (0 if dtype[0] == "u" else -3, 3)
        x = generator.integers(*(few if seed < 2 else (kind.min, kind.max)), shape, dtype)
        x.flat[-1] = kind.max
        return x
    if seed == 2:
        x = generator.standard_normal(shape).astype(dtype)
        x[generator.random(shape) < 0.2] = np.nan
        x.flat[-1] = 9
        return x
    values = [-3, -2, -1, -0.0, 0.0, 1, 2, np.nan, -np.inf, np.inf]
    x = generator.choice(values[: len(values) - seed], shape).astype(dtype)
    if len(x) > 1:
        x[0] = generator.choice([-np.inf, np.nan], x[0].shape)
    return x


SHAPES = {
    "a short row": ((5, 7), [1]),
    "a row": ((3, 67), [1]),
    "a row of whole vectors": ((2, 256), [1]),
    "a prime row": ((3, 1009), [1]),
    "one element": ((3, 1), [1]),
    "two elements": ((35, 2), [1]),
    "three elements": ((33, 3), [1]),
    "columns": ((13, 131), [0]),
    "few columns": ((67, 5), [0]),
    "one column": ((67, 1), [0]),
    "planes": ((2, 9, 7, 11), [1]),
    "short rows of two axes": ((3, 9, 2, 3), [2, 3]),
    "two axes after": ((4, 9, 16), [1, 2]),
    "two axes between": ((2, 3, 5, 19), [1, 2]),
    "all": ((7, 13), [0, 1]),
    "long": ((1, 100003), [1]),
    "some long": ((3, 65537), [1]),
}
TYPES = ("float64", "float16", *(f"{s}int{n}" for s in ("", "u") for n in (8, 16, 32, 64)))


def check(kernels, cases, target="native"):
    """Builds searches by name, as shape, axes, dtype, whether for the largest, result dtype."""
    built = {
        name: (search(axes, largest, result), [(shape, dtype)])
        for name, (shape, axes, dtype, largest, result) in cases.items()
    }
    mod = kernels.scheduled(kernels.functions(built), target)
    assert not kernels.strategies(mod) & SLOW
    machine = kernels.machine(mod, target)
    for name, (shape, axes, dtype, largest, result) in cases.items():
        for seed in range(3):
            x = awkward(shape, dtype, seed)
            (found,) = machine[name](runtime_tensor(x))
            assert found.numpy().dtype == result
            wanted = expected(x, axes, largest)
            np.testing.assert_array_equal(found.numpy(), wanted, err_msg=f"{name} {seed}")


@pytest.mark.parametrize("target", ["native", "llvm"])
@pytest.mark.parametrize("largest", [True, False])
def test_all_sizes(kernels, largest, target):
    cases = {
        name.replace(" ", "_"): (shape, axes, "float32", largest, "int64" if largest else "int32")
        for name, (shape, axes) in SHAPES.items()
    }
    check(kernels, cases, target)


def test_all_dtypes(kernels):
    sizes = itertools.cycle([((3, 67), [1]), ((13, 35), [0])])
    results, order = itertools.cycle(["int64", "int32", "uint8"]), itertools.cycle([True, False])
    cases = {
        f"{dtype}_{n}": (*next(sizes), dtype, next(order), next(results))
        for n, dtype in enumerate((*TYPES, *TYPES[1:], TYPES[0]))
    }
    check(kernels, cases)


N, M = tirx.Var("n", "int64"), tirx.Var("m", "int64")
DYNAMIC = {
    "rows": ((N, 37), [1], [(1, 37), (5, 37)]),
    "long_rows": ((3, N), [1], [(3, 0), (3, 1), (3, 5), (3, 63), (3, 64), (3, 65), (3, 1009)]),
    "columns": ((N, M), [0], [(1, 1), (5, 3), (64, 15), (9, 16), (7, 131)]),
    "all": ((N, M), [0, 1], [(1, 1), (5, 3), (9, 16), (7, 131)]),
    "planes": ((N, 5, M), [1], [(1, 5, 1), (2, 5, 15), (3, 5, 67)]),
}


def test_dynamic_dimensions(kernels):
    cases = {name: (search(axes), [shape]) for name, (shape, axes, _) in DYNAMIC.items()}
    mod = kernels.scheduled(kernels.functions(cases))
    assert not kernels.strategies(mod) & SLOW
    machine = kernels.machine(mod)
    for name, (_, axes, shapes) in DYNAMIC.items():
        for shape in shapes:
            x = awkward(shape, "float32")
            (found,) = machine[name](runtime_tensor(x))
            message = f"{name} of {shape}"
            np.testing.assert_array_equal(found.numpy(), expected(x, axes), err_msg=message)


BEFORE = {
    "affine": (
        lambda x: relax.op.add(relax.op.multiply(x, relax.const(2.0)), relax.const(1.0)),
        lambda x: x * 2 + 1,
    ),
    "whole": (lambda x: relax.op.astype(x, "int32"), lambda x: x.astype("int32")),
    "bfloat16": (lambda x: relax.op.astype(x, "bfloat16"), lambda x: x),
    "sigmoid": (relax.op.sigmoid, lambda x: 1 / (1 + np.exp(-x))),
}


@pytest.mark.parametrize("axis", [0, 1])
def test_computed_values(kernels, axis):
    cases = {name: (search([axis], before=make), [(19, 35)]) for name, (make, _) in BEFORE.items()}
    mod = kernels.scheduled(kernels.functions(cases))
    assert not kernels.strategies(mod) & SLOW
    machine, (x,) = kernels.machine(mod), kernels.values((19, 35))
    x = np.round(3 * x)
    for name, (_, compute) in BEFORE.items():
        (found,) = machine[name](runtime_tensor(x))
        np.testing.assert_array_equal(found.numpy(), expected(compute(x), [axis]), err_msg=name)


CASTS = {
    "wider": ("int8", "int64"),
    "with_a_sign": ("uint16", "int32"),
    "wrapped": ("uint8", "int8"),
    "narrower": ("int32", "int8"),
    "without_a_sign": ("int8", "uint8"),
}


def test_casts_before_argmax(kernels):
    cases = {
        name: (search([1], before=lambda x, to=to: relax.op.astype(x, to)), [((9, 37), of)])
        for name, (of, to) in CASTS.items()
    }
    mod = kernels.scheduled(kernels.functions(cases))
    machine = kernels.machine(mod)
    for name, (of, to) in CASTS.items():
        x = awkward((9, 37), of, 2)
        (found,) = machine[name](runtime_tensor(x))
        np.testing.assert_array_equal(found.numpy(), expected(x.astype(to), [1]), err_msg=name)


def test_what_follows_argmax(kernels):
    def halved(found, bias):
        return te.compute((19,), lambda i: found(i).astype("float32") * 0.5 + bias(i), name="half")

    def build(x, bias):
        builder = relax.BlockBuilder.current()
        return builder.call_te(halved, builder.emit(search([1], dtype="int32")(x)), bias)

    mod = kernels.scheduled(kernels.module(build, (19, 35), (19,)))
    assert not kernels.strategies(mod) & SLOW
    (bias,), x = kernels.values((19,)), awkward((19, 35), "float32")
    found = kernels.run(mod, [x, bias])
    np.testing.assert_allclose(found, expected(x, [1]) * np.float32(0.5) + bias, rtol=1e-6)


def test_the_operators_of_relax(kernels):
    cases = {
        f"{name}_{axis}_{keep}".replace("-", "m"): (name, axis, keep)
        for name, axis, keep in itertools.product(
            ("argmax", "argmin"), (None, 0, -1), (True, False)
        )
    }

    def build(name, axis, keep):
        return lambda x: getattr(relax.op, name)(x, axis, keep)

    mod = kernels.functions({name: (build(*case), [(9, 37)]) for name, case in cases.items()})
    made = kernels.scheduled(mod)
    assert not kernels.strategies(made) & SLOW
    machine, x = kernels.machine(made), awkward((9, 37), "float32")
    for name, (operator, axis, keep) in cases.items():
        (found,) = machine[name](runtime_tensor(x))
        axes = [0, 1] if axis is None else [axis % 2]
        wanted = expected(x, axes, operator == "argmax")
        shape = [1 if n in axes else extent for n, extent in enumerate(x.shape)]
        wanted = wanted.reshape(shape) if keep else wanted
        np.testing.assert_array_equal(found.numpy(), wanted, err_msg=name)


NOWHERE = (1 << 31) - 1


def pairs(data, order, null):
    """The positions of the largest values of rows and these, by some order of equal ones."""

    def combine(a, b):
        keep = tirx.Or(a[1] > b[1], tirx.And(tirx.EQ(a[1], b[1]), order(a[0], b[0])))
        return tirx.Select(keep, a[0], b[0]), tirx.Select(keep, a[1], b[1])

    reducer = te.comm_reducer(
        combine, lambda p, v: (tirx.const(null, p), tirx.min_value(v)), "pair"
    )
    k = te.reduce_axis((0, 35), "k")
    return te.compute((19,), lambda i: reducer((k.var, data(i, k.var)), axis=k), name="pair")


def sums(data):
    positions, values = pairs(data, tirx.LE, NOWHERE)
    return te.compute((19,), lambda i: positions(i) + values(i), name="sum")


OTHERS = {
    "the last of equals": lambda data: pairs(data, tirx.GE, -1)[0],
    "nothing found": lambda data: pairs(data, tirx.LE, -1)[0],
    "the value beside": lambda data: list(pairs(data, tirx.LE, NOWHERE)),
    "the value as well": sums,
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_reductions_over_pairs(kernels, name):
    mod = kernels.scheduled(kernels.formula(OTHERS[name], (19, 35), dtype="int64"))
    x = awkward((19, 35), "int64")
    x[3] = np.iinfo("int64").min
    found = kernels.compiled(mod)(runtime_tensor(x))
    first, last = x.argmax(1), 34 - x[:, ::-1].argmax(1)
    wanted = {
        "the last of equals": [last],
        "nothing found": [np.where(x.max(1) == np.iinfo("int64").min, -1, first)],
        "the value beside": [first, x.max(1)],
        "the value as well": [first + x.max(1)],
    }
    results = [found] if len(wanted[name]) == 1 else found
    for result, each in zip(results, wanted[name], strict=True):
        np.testing.assert_array_equal(result.numpy(), each)


def test_against_onnx_runtime():
    runtime, onnx = pytest.importorskip("onnxruntime"), pytest.importorskip("onnx")
    inputs = {
        f"{name}{axis}{dtype}": (name, axis, awkward((9, 3, 37), dtype, 1))
        for name, axis, dtype in itertools.product(
            ("ArgMax", "ArgMin"), (0, 1, 2), ("float32", "float64", "int8", "uint8", "int32")
        )
    }
    nodes, given, made = [], [], []
    for name, (operator, axis, x) in inputs.items():
        x[np.isnan(x)] = 0
        kind = onnx.helper.np_dtype_to_tensor_dtype(x.dtype)
        shape = [extent for n, extent in enumerate(x.shape) if n != axis]
        nodes.append(onnx.helper.make_node(operator, [name], [f"y{name}"], axis=axis, keepdims=0))
        given.append(onnx.helper.make_tensor_value_info(name, kind, x.shape))
        made.append(onnx.helper.make_tensor_value_info(f"y{name}", onnx.TensorProto.INT64, shape))
    graph = onnx.helper.make_graph(nodes, "searches", given, made)
    opset = onnx.helper.make_opsetid("", 13)
    model = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=9)
    session = runtime.InferenceSession(model.SerializeToString())
    wanted = session.run(None, {name: x for name, (*_, x) in inputs.items()})
    executable = tvm_nnef.build(tvm_nnef.convert(model), progress=False)
    found = executable(*(x for *_, x in inputs.values()))
    for name, ours, theirs in zip(inputs, found, wanted, strict=True):
        np.testing.assert_array_equal(ours, theirs, err_msg=name)
