"""Elements of few bits: float8, float4, int4 and int2 in Cast, quantisation, and what moves them.

Expected values are those of NumPy with ``ml_dtypes``, of the evaluator of ``onnx``, or of the
tables in the text of Cast. Each model runs on three routes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401  NumPy knows the dtypes from now on.
import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.arrays.coded_arrays import limits
from tvm_nnef.arrays.few_bits import FORMATS

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnx.reference")
from tvm_nnef.converters.onnx.export.model import export  # noqa: E402

helper, T = onnx.helper, onnx.TensorProto

INTS = [name for name in FORMATS if FORMATS[name].type == "int"]
FLOAT8 = [name for name in FORMATS if name.startswith("float8") and name != "float8_e8m0fnu"]
QUANTIZED = [*INTS, *FLOAT8, "float4_e2m1fn"]
POWERS = "float8_e8m0fnu"
OPSET = onnx.defs.onnx_opset_version()
RANDOM = np.random.default_rng(7)


def number(dtype: str) -> int:
    """ONNX's number of a type."""
    found: int = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return found


def elements(dtype: str, *shape: int) -> np.ndarray:
    """Random elements, of which none is NaN or infinite."""
    if dtype in INTS:
        least, most = limits(dtype)
        return RANDOM.integers(least, most + 1, shape).astype(dtype)
    codes = np.arange(1 << FORMATS[dtype].bits, dtype=np.uint8).view(dtype)
    return RANDOM.choice(codes[np.isfinite(codes.astype(np.float32))].view(np.uint8), shape).view(
        dtype
    )


def model(
    nodes: Sequence[Any],
    inputs: Mapping[str, np.ndarray],
    outputs: Mapping[str, str],
    constants: Mapping[str, Any] | None = None,
    shapes: Mapping[str, Sequence[Any]] | None = None,
    opset: int = OPSET,
) -> Any:
    """A model whose inputs have the shapes of arrays, and whose outputs dtypes."""
    graph = helper.make_graph(
        list(nodes),
        "g",
        [
            helper.make_tensor_value_info(n, number(str(a.dtype)), (shapes or {}).get(n, a.shape))
            for n, a in inputs.items()
        ],
        [helper.make_tensor_value_info(n, number(d), None) for n, d in outputs.items()],
        [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in (constants or {}).items()],
    )
    imports = [helper.make_opsetid("", opset)]
    return onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=imports))


def evaluated(proto: Any, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs by the evaluator of ``onnx``."""
    with np.errstate(all="ignore"):
        return [*onnx.reference.ReferenceEvaluator(proto).run(None, dict(inputs))]


def check(
    proto: Any, inputs: Mapping[str, np.ndarray], expected: Iterable[Any], **options: Any
) -> Any:
    """Runs a model on three routes; dtypes and all values must be equal. Returns the model."""
    converted = tvm_nnef.convert(proto, **options)
    graph = tvm_nnef.compose(converted)
    routes: list[Callable[..., Any]] = [
        lambda *given: tvm_nnef.evaluate(graph, *given, variables=converted.variables),
        tvm_nnef.build(converted, progress=False),
        tvm_nnef.build(converted, progress=False, route="formula"),
    ]
    wanted = list(expected)
    names = [value.name for value in proto.graph.output]
    for route in routes:
        for name, found, exact in zip(names, route(*inputs.values()), wanted, strict=True):
            assert (found.dtype, found.shape) == (exact.dtype, exact.shape), name
            wide = found.astype(np.float64), np.asarray(exact).astype(np.float64)
            np.testing.assert_array_equal(*wide, err_msg=name)
            zeros = wide[1] == 0
            assert np.array_equal(np.signbit(wide[0])[zeros], np.signbit(wide[1])[zeros]), name
    return converted


def numbers(dtype: str, wide: str = "float32") -> np.ndarray:
    """Numbers beyond, at, between and half-way between the codes of a dtype."""
    codes = np.arange(1 << FORMATS[dtype].bits, dtype=np.uint8).view(dtype).astype(np.float32)
    exact = np.unique(codes[np.isfinite(codes)])
    ties = (exact[1:] + exact[:-1]) / 2
    above, below = (np.nextafter(ties, np.float32(s * np.inf)) for s in (1, -1))
    far = exact[-1] * np.array([1.02, 1.0625, 1.07, 1.4, 1e3, np.inf, np.nan], np.float32)
    parts = [codes, ties, above, below, far, -far]
    with np.errstate(over="ignore"):
        return np.concatenate(parts).astype(wide)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("wide", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize("dtype", [*FLOAT8, "float4_e2m1fn"])
def test_reals_are_rounded_to_the_nearest_code(dtype: str, saturate: int, wide: str) -> None:
    inputs = {"x": numbers(dtype, wide)}
    nodes = [helper.make_node("Cast", ["x"], ["y"], to=number(dtype), saturate=saturate)]
    proto = model(nodes, inputs, {"y": dtype})
    check(proto, inputs, evaluated(proto, inputs))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", FORMATS)
def test_every_code_is_a_number(dtype: str) -> None:
    codes = np.arange(1 << FORMATS[dtype].bits, dtype=np.uint8)
    inputs = {"x": codes.view(dtype) if dtype not in INTS else codes.astype(dtype)}
    targets = ("float32", "float16", "float64", "bfloat16")
    targets += ("int8", "uint8", "int32", "bool", "int4", "uint4") if dtype in INTS else ()
    nodes = [helper.make_node("Cast", ["x"], [d], to=number(d)) for d in targets]
    proto = model(nodes, inputs, dict(zip(targets, targets, strict=True)))
    wide = inputs["x"].astype(np.int32 if dtype in INTS else np.float32)
    with np.errstate(over="ignore"):
        check(proto, inputs, [wide.astype(d) for d in targets])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", [*FLOAT8, "float4_e2m1fn", *INTS])
def test_ints_and_booleans_become_elements(dtype: str) -> None:
    whole = np.array([0, 1, -1, 7, -8, 9, 100, -100, 240, 448, 500, 60000, -70000], np.int32)
    inputs = {"i": whole, "b": np.array([True, False]), "q": np.arange(-8, 8).astype("int4")}
    like = {"like": np.zeros(1, dtype)}
    nodes = [helper.make_node("CastLike", [n, "like"], [f"{n}y"]) for n in inputs]
    outputs = dict.fromkeys(("iy", "by", "qy"), dtype)
    wide = {**inputs, "q": inputs["q"].astype(np.int32)}  # The evaluator takes no int4 here.
    expected = evaluated(model(nodes, wide, outputs, like), wide)
    check(model(nodes, inputs, outputs, like), inputs, expected)


MOST = 2.0**127
ROUNDED = {
    # mode, saturate: what becomes of the numbers that are named
    ("up", 1): {0: 2.0**-127, 1: 1, 1.25: 2, 1.5: 2, 3: 4, 5: 8, 2.0**-140: 2.0**-127,
                1.7 * MOST: MOST, np.inf: MOST, np.nan: np.nan},
    ("down", 1): {0: 2.0**-127, 1: 1, 1.25: 1, 1.99: 1, 3: 2, 1.5 * 2.0**-127: 2.0**-127,
                  1.7 * MOST: MOST, np.inf: MOST, np.nan: np.nan},
    ("nearest", 1): {0: 2.0**-127, 1: 1, 1.25: 1, 1.5: 2, 1.49: 1, 5: 4, 6: 8,
                     1.7 * MOST: MOST, np.inf: MOST, np.nan: np.nan},
    ("nearest", 0): {0: np.nan, 1: 1, 1.25: 1, 1.5: 2, 1.7 * MOST: np.nan, np.inf: np.nan},
    ("up", 0): {0: np.nan, 1.25: 2, 1.01 * MOST: np.nan, np.inf: np.nan, np.nan: np.nan},
}  # fmt: skip


@pytest.mark.parametrize(("mode", "saturate"), ROUNDED)
def test_powers_of_two_are_rounded_as_the_tables_have_it(mode: str, saturate: int) -> None:
    table = ROUNDED[mode, saturate]
    inputs = {"x": np.array([*table], np.float32)}
    options = {"to": T.FLOAT8E8M0, "round_mode": mode, "saturate": saturate}
    nodes = [helper.make_node("Cast", ["x"], ["y"], **options)]
    expected = np.array([*table.values()], np.float32).astype(POWERS)
    check(model(nodes, inputs, {"y": POWERS}), inputs, [expected])


SCALES: Mapping[str, tuple[tuple[int, ...], Mapping[str, int]]] = {
    "tensor": ((), {}),
    "axis0": ((4,), {"axis": 0}),
    "axis1": ((6,), {"axis": 1}),
    "last": ((4,), {"axis": -1}),
    "blocks0": ((2, 6, 4), {"axis": 0, "block_size": 2}),
    "blocks1": ((4, 2, 4), {"axis": 1, "block_size": 3}),
    "blocks2": ((4, 6, 2), {"axis": 2, "block_size": 2}),
}


def quantization(dtype: str, operator: str, x: str, result: str) -> tuple[Any, ...]:
    """Nodes, outputs and constants for each granularity, with and without zero points."""
    nodes, outputs, constants = [], {}, {}
    for name, (shape, attributes) in SCALES.items():
        constants[f"{name}_s"] = (RANDOM.integers(1, 9, shape) / 8).astype(np.float32)
        zero = elements(dtype, *shape) if dtype in INTS else np.zeros(shape, dtype)
        constants[f"{name}_z"] = zero
        given = [x, f"{name}_s", f"{name}_z"]
        nodes.append(helper.make_node(operator, given, [name], **attributes))
        more = {**attributes, "output_dtype": number(result)}
        nodes.append(helper.make_node(operator, given[:2], [f"{name}_n"], **more))
        outputs |= {name: dtype if operator[0] == "Q" else "float32", f"{name}_n": result}
    return nodes, outputs, constants


@pytest.mark.slow
@pytest.mark.parametrize("dtype", QUANTIZED)
def test_quantisation_of_tensors_axes_and_blocks(dtype: str) -> None:
    x = (RANDOM.standard_normal((4, 6, 4)) * (300 if dtype in FLOAT8 else 3)).astype(np.float32)
    nodes, outputs, constants = quantization(dtype, "QuantizeLinear", "x", dtype)
    proto = model(nodes, {"x": x}, outputs, constants)
    check(proto, {"x": x}, evaluated(proto, {"x": x}))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", QUANTIZED)
def test_dequantisation_of_tensors_axes_and_blocks(dtype: str) -> None:
    inputs = {"x": elements(dtype, 4, 6, 4)}
    nodes, outputs, constants = quantization(dtype, "DequantizeLinear", "x", "float16")
    if dtype == "float4_e2m1fn" or dtype in FLOAT8:
        nodes.append(helper.make_node("Cast", ["blocks1_s"], ["power"], to=T.FLOAT8E8M0))
        options: dict[str, Any] = {**SCALES["blocks1"][1], "output_dtype": T.FLOAT}
        nodes.append(helper.make_node("DequantizeLinear", ["x", "power"], ["mx"], **options))
        outputs["mx"] = "float32"
    proto = model(nodes, inputs, outputs, constants)
    expected = evaluated(proto, inputs)
    check(proto, inputs, expected)


@pytest.mark.slow
def test_scales_and_zero_points_that_arrive_at_run_time() -> None:
    x = elements("int4", 5, 6)
    inputs = {"x": x, "s": np.full((5, 2), 0.5, np.float32), "z": elements("int4", 5, 2)}
    options = {"axis": 1, "block_size": 3}
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s", "z"], ["y"], **options),
        helper.make_node("QuantizeLinear", ["y", "s", "z"], ["q"], **options),
    ]
    shapes = {"x": ("N", 6), "s": ("N", 2), "z": ("N", 2)}
    proto = model(nodes, inputs, {"y": "float32", "q": "int4"}, shapes=shapes)
    check(proto, inputs, [*evaluated(proto, inputs)[:1], x], bounds=8)


def movers(x: np.ndarray) -> tuple[list[Any], dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Nodes that move the elements of x [2, 3, 4], their constants, and what NumPy makes of x."""
    whole = {
        "s": [4, -1], "one": [1], "e": [3, 2, 3, 4], "i": [2, -3], "r": [1, 2, 1], "m": [-1],
        "a": [3], "b": [-9], "st": [-2], "p": [0, 1, 0, 0, 0, 2], "n": [[0, 1], [1, 2]],
    }  # fmt: skip
    constants: dict[str, Any] = {name: np.array(value, np.int64) for name, value in whole.items()}
    constants |= {"w": x[:, :, ::-1].copy(), "c": np.arange(24).reshape(2, 3, 4) % 3 == 0}
    constants["v"] = x[1, 2, 3].reshape(())
    padded = np.full((2, 4, 6), x[1, 2, 3], x.dtype)
    padded[:, 1:, :4] = x
    w, c = constants["w"], constants["c"]
    rows: dict[str, tuple[str, str, dict[str, Any], np.ndarray]] = {
        "reshape": ("Reshape", "x s", {}, x.reshape(4, 6)),
        "transpose": ("Transpose", "x", {"perm": [2, 0, 1]}, x.transpose(2, 0, 1)),
        "gather": ("Gather", "x i", {"axis": 1}, x[:, [2, 0]]),
        "elements": ("GatherND", "x n", {}, x[[0, 1], [1, 2]]),
        "slice": ("Slice", "x a b m st", {}, x[:, :, 3::-2]),
        "concat": ("Concat", "x w", {"axis": 1}, np.concatenate([x, w], 1)),
        "identity": ("Identity", "x", {}, x),
        "flatten": ("Flatten", "x", {"axis": 2}, x.reshape(6, 4)),
        "unsqueeze": ("Unsqueeze", "x one", {}, x[:, None]),
        "squeeze": ("Squeeze", "unsqueeze one", {}, x),
        "expand": ("Expand", "x e", {}, np.broadcast_to(x, (3, 2, 3, 4))),
        "tile": ("Tile", "x r", {}, np.tile(x, (1, 2, 1))),
        "where": ("Where", "c x w", {}, np.where(c, x, w)),
        "pad": ("Pad", "x p v", {}, padded),
        "shape": ("Shape", "x", {}, np.array([2, 3, 4])),
        "size": ("Size", "x", {}, np.array(24)),
        "filled": ("ConstantOfShape", "i2", {"value": onnx.numpy_helper.from_array(
            x[:1, 0, 0])}, np.full((2, 2), x[0, 0, 0])),
    }  # fmt: skip
    constants["i2"] = np.array([2, 2], np.int64)
    nodes = [helper.make_node(o, i.split(), [n], **a) for n, (o, i, a, _) in rows.items()]
    return nodes, constants, {name: row[3] for name, row in rows.items()}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", FORMATS)
def test_elements_are_moved_unchanged(dtype: str) -> None:
    x = elements(dtype, 2, 3, 4)
    nodes, constants, expected = movers(x)
    proto = model(nodes, {"x": x}, {n: str(a.dtype) for n, a in expected.items()}, constants)
    check(proto, {"x": x}, expected.values())


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "int4"])
@pytest.mark.parametrize("count", [0, 3])
def test_branches_and_loops_carry_elements(dtype: str, count: int) -> None:
    info, kind = helper.make_tensor_value_info, number(dtype)
    body = helper.make_graph(
        [
            helper.make_node("Concat", ["carried", "w"], ["both"], axis=0),
            helper.make_node("Slice", ["both", "i1", "i3"], ["next"]),
            helper.make_node("Slice", ["both", "i0", "i1"], ["scan"]),
            helper.make_node("Identity", ["go"], ["on"]),
        ],
        "body",
        [info("it", T.INT64, ()), info("go", T.BOOL, ()), info("carried", kind, (2, 3))],
        [info("on", T.BOOL, ()), info("next", kind, (2, 3)), info("scan", kind, (1, 3))],
    )
    branches = [
        helper.make_graph([node], "b", [], [info("o", kind, (3, 2))])
        for node in (
            helper.make_node("Transpose", ["x"], ["o"], perm=[1, 0]),
            helper.make_node("Reshape", ["x", "s"], ["o"]),
        )
    ]
    x, w = elements(dtype, 2, 3), elements(dtype, 1, 3)
    inputs = {"x": x, "m": np.array(count), "c": np.array(count > 0)}
    nodes = [
        helper.make_node("Loop", ["m", "", "x"], ["last", "scans"], body=body),
        helper.make_node("If", ["c"], ["o2"], then_branch=branches[0], else_branch=branches[1]),
    ]
    constants = {"w": w, "s": np.array([3, 2])}
    constants |= {f"i{n}": np.array([n]) for n in (0, 1, 3)}
    proto = model(nodes, inputs, {"last": dtype, "scans": dtype, "o2": dtype}, constants)
    stacked = np.concatenate([x, w, w, w])
    expected = [
        stacked[count : count + 2],
        stacked[:count].reshape(count, 1, 3),
        x.T if count else x.reshape(3, 2),
    ]
    check(proto, inputs, expected, bounds=4)


@pytest.mark.parametrize("dtype", FORMATS)
def test_weights_lie_packed_in_files(dtype: str, tmp_path: Path) -> None:
    """Those of ONNX, inside of the model and beside it, and those of SkriptND."""
    x, w = elements(dtype, 1, 5), elements(dtype, 3, 5)
    proto = model([helper.make_node("Concat", ["w", "x"], ["y"], axis=0)], {"x": x},
                  {"y": dtype}, {"w": w})  # fmt: skip
    copy = onnx.ModelProto.FromString(proto.SerializeToString())  # Saving changes a model.
    onnx.save(copy, tmp_path / "net.onnx", save_as_external_data=True, size_threshold=0)
    expected = np.concatenate([w, x])
    for number_, source in enumerate((proto, tmp_path / "net.onnx")):
        converted = tvm_nnef.convert(source)
        folder = tmp_path / f"saved{number_}"
        tvm_nnef.save_model(converted, folder)
        (file,) = folder.glob("*.dat")
        assert file.stat().st_size == 128 + (15 * FORMATS[dtype].bits + 7) // 8
        loaded = tvm_nnef.load_model(folder)
        (found,) = tvm_nnef.evaluate(loaded, x)
        assert found.dtype == expected.dtype and found.tobytes() == expected.tobytes()
        again = tmp_path / f"again{number_}"
        tvm_nnef.save_model(loaded, again)
        assert (again / file.name).read_bytes() == file.read_bytes()


def test_external_data_of_a_wrong_length_are_refused(tmp_path: Path) -> None:
    node, x, w = helper.make_node("Concat", ["w", "x"], ["y"], axis=0), (1, 5), (3, 5)
    weights = {"w": elements("int4", *w)}
    proto = model([node], {"x": elements("int4", *x)}, {"y": "int4"}, weights)
    onnx.save(proto, tmp_path / "net.onnx", save_as_external_data=True, size_threshold=0)
    (data,) = (each for each in tmp_path.iterdir() if each.suffix != ".onnx")
    os.truncate(data, 7)
    with pytest.raises(tvm_nnef.NnefError, match="needs 8 from 0 on"):
        tvm_nnef.convert(tmp_path / "net.onnx")


REFUSED = {
    "bits of float8": (
        [helper.make_node("BitCast", ["x"], ["y"], to=T.UINT8)], "float8_e5m2", "uint8",
        "bits of float8_e5m2",
    ),
    "a zero point of float8": (
        [helper.make_node("DequantizeLinear", ["x", "s", "z"], ["y"])], "float8_e5m2", "float32",
        "zero point of float8_e5m2 is not 0",
    ),
    "an unknown rounding": (
        [helper.make_node("Cast", ["x"], ["y"], to=T.FLOAT8E8M0, round_mode="odd")], "float32",
        POWERS, "'round_mode' is 'odd'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_converted_is_said(case: str) -> None:
    nodes, given, result, message = REFUSED[case]
    if OPSET < 26 and nodes[0].op_type == "BitCast":
        pytest.skip("this onnx does not know BitCast")
    constants = {"s": np.float32(1), "z": np.ones((), "float8_e5m2")}
    proto = model(nodes, {"x": np.zeros(3, given)}, {"y": result}, constants)
    with pytest.raises(tvm_nnef.NnefError, match=message):
        tvm_nnef.convert(proto)


def test_comparing_with_onnx_runtime_takes_codes(tmp_path: Path) -> None:
    """ONNX Runtime gives NumPy the codes of this type, and nothing of the others."""
    pytest.importorskip("onnxruntime")
    dtype = "float8_e4m3fn"
    inputs = {"x": elements(dtype, 3, 4)}
    nodes = [
        helper.make_node("Cast", ["x"], ["w"], to=T.FLOAT),
        helper.make_node("Add", ["w", "one"], ["z"]),
        helper.make_node("Cast", ["z"], ["y"], to=number(dtype)),
    ]
    proto = model(nodes, inputs, {"y": dtype}, {"one": np.float32(1)}, opset=21)
    onnx.save(proto, tmp_path / "net.onnx")
    report = tvm_nnef.compare(tmp_path / "net.onnx", inputs["x"])
    assert report.agrees, str(report)


@pytest.mark.parametrize("dtype", ["int4", "uint4", *FLOAT8])
def test_exported_models_keep_their_elements(dtype: str) -> None:
    x = elements(dtype, 2, 3, 4)
    given = {"x": x, "wide": np.array([0.3, -500, np.inf, np.nan], np.float32)}
    nodes, constants, expected = movers(x)
    if dtype in FLOAT8:
        nodes.append(helper.make_node("Cast", ["wide"], ["cast"], to=number(dtype), saturate=0))
        with np.errstate(all="ignore"):
            expected["cast"] = given["wide"].astype(dtype)
    proto = model(nodes, given, {n: str(a.dtype) for n, a in expected.items()}, constants)
    converted = tvm_nnef.convert(proto)
    exported = export(tvm_nnef.compose(converted), converted.variables)
    onnx.checker.check_model(exported, full_check=True)
    for found, exact in zip(evaluated(exported, given), expected.values(), strict=True):
        assert found.dtype == exact.dtype
        np.testing.assert_array_equal(found.astype(float), exact.astype(float))


def test_types_that_the_exported_opset_lacks_are_refused() -> None:
    x = {"x": elements("float4_e2m1fn", 3)}
    converted = tvm_nnef.convert(
        model([helper.make_node("Identity", ["x"], ["y"])], x, {"y": "float4_e2m1fn"})
    )
    with pytest.raises(tvm_nnef.NnefError, match="float4_e2m1fn only after opset"):
        export(tvm_nnef.compose(converted), converted.variables)
