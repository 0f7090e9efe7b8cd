"""Documents with extensions of tract: refused without the option, exact with it."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from scipy import special

import tvm_nnef
from tvm_nnef import NnefError
from tvm_nnef.storage.tensor_file import ItemType, TensorFile, write_tensor

HEADER = """version 1.0;
extension tract_registry tract_core;
extension tract_symbol N;
extension tract_assert N<=16;
extension tract_assert N >= 1;
fragment tract_core_properties() -> (properties: (string, tensor<scalar>)[])
{
  properties = [("tract_nnef_ser_version", "0.19.3"), ("exporter", "x")];
}
"""
X = np.random.default_rng(5).normal(size=(3, 4, 2)).astype(np.float32)
I = np.array([2, 0, 1], np.int32)  # noqa: E741
B = X > 0


def document(expression: str, inputs: str = "x") -> str:
    return f"""{HEADER}graph net({inputs}) -> (y)
{{
  x = tract_core_external(shape = [N, 4, 2], datum_type = 'f32');
  {"i = external<integer>(shape = [N]);" if "i" in inputs else ""}
  {"b = tract_core_external(shape = [N, 4, 2], datum_type = 'bool');" if "b" in inputs else ""}
  y = {expression};
}}"""


CASES = {
    "tract_core_sinh(x)": np.sinh(X),
    "tract_core_erf(x) + 1.0": special.erf(X) + 1,
    "tract_core_round_even(x * 2.0)": np.round(X * 2),
    "tract_core_is_nan(log(x))": X < 0,
    "tract_core_hard_swish(x)": X * np.clip(X + 3, 0, 6) / 6,
    "tract_core_silu(x)": X * special.expit(X),
    "tract_core_softmax(x, axes = [1])": special.softmax(X, 1),
    "tract_core_log_softmax(x * 100.0, axes = [1])": special.log_softmax(X * 100, 1),
    "tract_core_product_reduce(x, axes = [1])": X.prod(1, keepdims=True),
    "tract_core_rms_norm(x, axis = 2, eps = 0.1)": X / np.sqrt((X**2).mean(2, keepdims=True) + 0.1),
    "tract_core_cast(x, to = 'i64')": X.astype(np.int64),
    "tract_core_cast(x, to = 'bool')": X != 0,
    "tract_core_cast(x, to = 'f64')": X.astype(np.float64),
    "tract_core_broadcast(max_reduce(x, axes = [1]), shape = [N, 4, 2])": np.broadcast_to(
        X.max(1, keepdims=True), X.shape
    ),
    "tract_core_is_inf(log(relu(x)))": X <= 0,
    "tract_core_is_inf(log(relu(x)), detect_negative = false)": np.zeros_like(X, bool),
    "tract_core_gelu_approx(x, fast_impl = false)": X
    * special.expit(np.float32(np.sqrt(8 / np.pi)) * (X + np.float32(0.044715) * X**3)),
    "tract_core_pow_const(x, 2.0)": X**2,
    "tract_core_cumsum(x, axis = 1, exclusive = false, reverse = false)": X.cumsum(1),
    "tract_core_cumsum(x, axis = 1, exclusive = true)": X.cumsum(1) - X,
    "tract_core_shape_of(x)": np.int64([3, 4, 2]),
    "tract_core_range(start = 0, end = 5, step = 2)": np.int64([0, 2, 4]),
    "tract_core_range(5, 0, -2)": np.int64([5, 3, 1]),
    "tract_core_range(0, N, 1)": np.int64([0, 1, 2]),
    "tract_core_range(0.0, 2.0, 0.5)": np.float32([0, 0.5, 1, 1.5]),
    "tract_core_trilu(x, upper = true, k = 0)": np.triu(X),
    "tract_core_trilu(x, upper = false, k = -1)": np.tril(X, -1),
    "tract_core_downsample(x, axis = 1, stride = 3, modulo = 0)": X[:, ::3],
    "tract_core_downsample(x, axis = 1, stride = 2, modulo = 1)": X[:, 1::2],
    "slice(x, axes = [1], begin = [0], end = [4], stride = [3])": X[:, ::3],
    "slice(x, axes = [1], begin = [1], end = [4], stride = [2])": X[:, 1::2],
    "tract_core_argmax_reduce_last(floor(x), axes = [1])": 3
    - np.floor(X)[:, ::-1].argmax(1, keepdims=True),
    "tract_core_argmin_reduce_last(floor(x), axes = [1])": 3
    - np.floor(X)[:, ::-1].argmin(1, keepdims=True),
    "tract_core_einsum([x, x], expr = 'abc,adc->abd', acc = 'f32', output = '')": np.einsum(
        "abc,adc->abd", X, X
    ),
    "tract_core_einsum([x], expr = 'abc->ca', acc = 'f32')": np.einsum("abc->ca", X),
    "tract_core_einsum([x, x, x], expr = 'abc,abd,aec->de', acc = 'f32')": np.einsum(
        "abc,abd,aec->de", X, X, X
    ),
    "tract_core_one_hot(cast<integer>(sqr(x)), axis = 1, dim = 3, value_on = 2.0)": np.moveaxis(
        2 * np.eye(9, dtype="f")[(X**2).astype(int)][..., :3], -1, 1
    ),
    "tract_core_bitnot(tract_core_cast(x * 9.0, to = 'i64'))": ~(X * 9).astype(np.int64),
    "tract_core_erf(input = x)": special.erf(X),
    "tract_core_softmax(x, axes = [1], exp = 'libc')": special.softmax(X, 1),
    "tract_core_cast(x * 1000.0, to = 'i8')": np.clip(X * 1000, -128, 127).astype(np.int8),
    "tract_core_cast(log(x) * 100.0, to = 'u8')": np.nan_to_num(
        np.clip(np.log(X, where=X > 0, out=np.full_like(X, np.nan)) * 100, 0, 255)
    ).astype(np.uint8),
    "tract_core_broadcast(x, shape = [2, N, 4, 2])": np.broadcast_to(X, (2, *X.shape)),
    "tract_core_downsample(x, axis = 1, stride = 2, modulo = 3)": X[:, 3::2],
    "tract_core_downsample(x, axis = 1, stride = 2)": X[:, ::2],
    "tract_core_argmax_reduce_last(floor(x), axes = [1, 2])": 7
    - np.floor(X).reshape(3, 8)[:, ::-1].argmax(1).reshape(3, 1, 1),
    "tract_core_einsum([x, x], expr = 'abc,adc->', acc = 'f32')": np.einsum("abc,adc->bd", X, X),
    "tract_core_einsum([x, sum_reduce(x, axes = [1])], expr = 'abc,abc->ac', acc = 'f32')": X.sum(1)
    ** 2,
    "tract_core_bitnot(gt(x, 0.0))": X <= 0,
    "tract_core_bitxor(gt(x, 0.0), gt(x, 1.0))": (X > 0) ^ (X > 1),
    "round(x - x + 2.5)": np.full_like(X, 3),
    "round(x - x - 2.5)": np.full_like(X, -3),
    "square(x)": X**2,
    "recip(x)": 1 / X,
    "max_pool(-sqr(x), size = [1, 3, 1], padding = [(0, 0), (1, 1), (0, 0)])": -np.minimum(
        X**2,
        np.minimum(
            np.pad(X**2, ((0, 0), (1, 0), (0, 0)), constant_values=np.inf)[:, :-1],
            np.pad(X**2, ((0, 0), (0, 1), (0, 0)), constant_values=np.inf)[:, 1:],
        ),
    ),
    "reshape(x, shape = [N, 8])": X.reshape(3, 8),
    "softmax(x, 1)": special.softmax(X, 1),
    "reshape(x, shape = [N * 2, 4])": X.reshape(6, 4),
    "reshape(x, shape = [shape_of(x)[0], -1])": X.reshape(3, 8),
}


@pytest.mark.parametrize("expression", CASES)
def test_operations_of_tract(expression: str) -> None:
    with np.errstate(invalid="ignore"):
        model = tvm_nnef.convert(document(expression), vendor="tract")
        (found,) = tvm_nnef.evaluate(model, X)
    assert (found.dtype, found.shape) == (CASES[expression].dtype, CASES[expression].shape)
    np.testing.assert_allclose(found, CASES[expression], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("tract_core_gather(x, i, axis = 0)", X[I]),
        (
            "tract_core_gather(x, tract_core_cast(-tract_core_cast(i, to = 'f32'), to = 'i64'), "
            "axis = 1)",
            X[:, -I],
        ),
        ("tract_core_gather_elements(i, i, axis = 0)", I[I]),
    ],
)
def test_gathering(expression: str, expected: np.ndarray) -> None:
    model = tvm_nnef.convert(document(expression, "x, i"), vendor="tract")
    np.testing.assert_array_equal(tvm_nnef.evaluate(model, X, I)[0], expected)


@pytest.mark.parametrize("largest", [True, False])
def test_largest_elements(largest: bool) -> None:
    text = document("y").replace("-> (y)", "-> (y, z)")
    call = f"tract_core_topk(x, k = 3, axis = 1, largest = {str(largest).lower()})"
    model = tvm_nnef.convert(text.replace("y = y", f"(y, z) = {call}"), vendor="tract")
    values, positions = tvm_nnef.evaluate(model, X)
    order = np.argsort(-X if largest else X, 1, kind="stable")[:, :3]
    np.testing.assert_array_equal(positions, order)
    np.testing.assert_array_equal(values, np.take_along_axis(X, order, 1))
    with pytest.raises(NnefError, match="'k' is 5 for a dimension of 4"):
        tvm_nnef.convert(
            text.replace("y = y", f"(y, z) = {call.replace('3', '5')}"), vendor="tract"
        )


@pytest.mark.parametrize("name", ["and", "or", "xor"])
def test_bits(name: str) -> None:
    text = document(f"tract_core_bit{name}(i, tract_core_cast(x * 9.0, to = 'i32'))", "x, i")
    model = tvm_nnef.convert(text, vendor="tract")
    (found,) = tvm_nnef.evaluate(model, X, I)
    expected = getattr(np, f"bitwise_{name}")(I[:, None, None], (X * 9).astype(np.int32))
    np.testing.assert_array_equal(found, expected)


ROWS = np.array([[1, 2], [0, 3], [2, 0]], np.int32)


def test_rows_of_indices() -> None:
    """Values that tract gives for the same calls."""
    head = document("neg(x)").replace("y = neg(x);", "{}").replace("[N, 4, 2]", "[3, 4, 2]")
    rows = f"r = constant<integer>(shape = [3, 2], value = {ROWS.reshape(-1).tolist()});"
    cases = {
        "tract_core_gather_nd(x, r, batch_dims = 0)": X[ROWS[:, 0], ROWS[:, 1]],
        "tract_core_gather_nd(x, unsqueeze(r, axes = [2]), batch_dims = 1)": np.take_along_axis(
            X, ROWS[:, :, None].repeat(2, 2), 1
        ),
        "tract_core_scatter_nd(x, r, slice(x, axes = [1], begin = [0], end = [1]))": None,
    }
    changed = X.copy()
    changed[ROWS[:, 0], ROWS[:, 1]] = X[:, 0]
    last = "tract_core_scatter_nd(x, r, squeeze(slice(x, axes = [1], begin = [0], end = [1]), "
    cases = {k: v for k, v in cases.items() if v is not None} | {last + "axes = [1]))": changed}
    for call, expected in cases.items():
        text = head.replace("{}", f"{rows} y = {call};", 1)
        model = tvm_nnef.convert(text, vendor="tract")
        np.testing.assert_array_equal(tvm_nnef.evaluate(model, X)[0], expected)


@pytest.mark.parametrize("how", ["none", "add", "mul", "max", "min"])
def test_scattering(how: str) -> None:
    call = f"tract_core_scatter_elements(x, k, x * 2.0, axis = 1, reduction = '{how}')"
    positions = np.argsort(X, 1)
    flat = positions.reshape(-1).tolist()
    constant = f"k = constant<integer>(shape = [3, 4, 2], value = {flat});"
    text = (
        document(call)
        .replace("[N, 4, 2]", "[3, 4, 2]")
        .replace("y = tract", constant + " y = tract")
    )
    (found,) = tvm_nnef.evaluate(tvm_nnef.convert(text, vendor="tract"), X)
    new = np.zeros_like(X)
    np.put_along_axis(new, positions, X * 2, 1)
    functions = {"none": lambda _, b: b, "add": np.add, "mul": np.multiply, "max": np.maximum}
    expected = functions.get(how, np.minimum)(X, new)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_rotary_embedding() -> None:
    x = np.arange(24, dtype=np.float32).reshape(3, 4, 2)
    text = document("tract_transformers_apply_rope(x, x, x)")
    text = text.replace("tract_registry tract_core", "tract_registry tract_transformers")
    text = text.replace("tract_core_external", "external").replace(", datum_type = 'f32'", "")
    (found,) = tvm_nnef.evaluate(tvm_nnef.convert(text, vendor="tract"), x)
    # What tract 0.23 gives.
    np.testing.assert_array_equal(found[0].reshape(-1), [0, 1, -2, 15, -4, 45, -6, 91])


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("tract_core_gelu_approx(x, fast_impl = true)", "its own approximation"),
        ("tract_core_range(0, 4, 0)", "'step' is 0"),
        ("tract_core_range(0, 4, N)", "'step' is known only at run time"),
        ("tract_core_einsum([x], expr = 'aab->b', acc = 'f32')", "repeats a dimension"),
        ("tract_core_einsum([x], expr = 'ab->b', acc = 'f32')", "names 2 dimensions"),
        ("tract_core_einsum([x], expr = 'abc->d', acc = 'f32')", "names other dimensions"),
        ("tract_core_einsum([x], expr = 'abc,d->d', acc = 'f32')", "does not fit 1 inputs"),
        ("tract_core_einsum([x], expr = 'abc->a', acc = 'i32')", "not a real datum type"),
        ("tract_core_einsum([x, x], expr = 'abc,acb->a', acc = 'f32')", "dimension 'c' is 2 and 4"),
        ("tract_core_downsample(x, axis = 1, stride = -1, modulo = 0)", "'stride' is -1"),
        ("tract_core_one_hot(cast<integer>(x), axis = 4, dim = 3)", "'axis' names dimension 4"),
        ("tract_core_trilu(max_reduce(squeeze(x, axes = [1]), axes = [0]), k = 0, upper = true)",
         "dimension 1 is 4"),
        ("tract_core_gather_nd(x, cast<integer>(x), batch_dims = 3)", "'batch_dims' is 3"),
        ("tract_core_scatter_nd(x, cast<integer>(x), sum_reduce(x, axes = [1]))",
         "'updates' has the shape"),
    ],
)  # fmt: skip
def test_calls_without_an_exact_meaning(call: str, reason: str) -> None:
    with pytest.raises(NnefError, match=reason) as caught:
        tvm_nnef.convert(document(call), vendor="tract")
    assert all(each.span is not None and each.hint for each in caught.value.diagnostics)


def test_exclusive_or() -> None:
    text = document("tract_core_xor(b, gt(x, 0.5))", "x, b")
    model = tvm_nnef.convert(text, vendor="tract")
    np.testing.assert_array_equal(tvm_nnef.evaluate(model, X, B)[0], B ^ (X > 0.5))


@pytest.mark.parametrize("count", [1, 16])
def test_symbols_are_dynamic_up_to_their_bound(count: int) -> None:
    model = tvm_nnef.convert(document("neg(x)"), vendor="tract")
    x = np.ones((count, 4, 2), np.float32)
    assert tvm_nnef.evaluate(model, x)[0].shape == x.shape


def test_beyond_the_bound() -> None:
    model = tvm_nnef.convert(document("neg(x)"), vendor="tract", bounds={"N": 2})
    with pytest.raises(NnefError):
        tvm_nnef.evaluate(model, X)


def test_a_shape_defines_a_symbol() -> None:
    text = document("reshape(x, shape = [N * 4, 2])")
    model = tvm_nnef.convert(text, vendor="tract", input_shapes={"x": (3, 4, 2)})
    np.testing.assert_array_equal(tvm_nnef.evaluate(model, X)[0], X.reshape(12, 2))


FAULTS = {
    "registry": (("tract_core;", "tract_resource;"), "registry are not known", 2),
    "extension": (("tract_symbol N", "tract_symbool N"), "cannot be converted", 3),
    "assertion": (("N<=16", "N*2<=M"), "assertion cannot be kept", 4),
    "operation": (("neg(x)", "tract_core_xyz(x)"), "no operation or fragment", 15),
    "complex": (("neg(x)", "tract_core_stft(x)"), "cannot be converted: .*complex numbers", 15),
    "state": (("neg(x)", "tract_core_delay(x, 0, 1, 0)"), "cannot be converted: it keeps a", 15),
    "indices": (
        ("neg(x)", "max_pool_with_index(x, size = [1, 1, 1])"),
        "counts its indices over the whole input",
        15,
    ),
    "no registry": (
        ("neg(x)", "tract_onnx_erf(x)"),
        "not name the registry of 'tract_onnx_erf'",
        15,
    ),
    "datum type": (("'f32'", "'tdim'"), "datum type cannot be converted", 12),
    "dimension": (("[N, 4, 2]", "[N + 1, 4, 2]"), "computed from 'N'", 12),
    "shape": (("neg(x)", "reshape(x, shape = [N, 7])"), "cannot be reshaped", 15),
    "cast": (("neg(x)", "tract_core_cast(x, to = 'string')"), "not a dtype", 15),
    "axis": (("neg(x)", "softmax(x, axes = [N])"), "known only at run time", 15),
    "subscript": (("neg(x)", "softmax(x, axes = [[1][N]])"), "known only at run time", 15),
    "copies": (("neg(x)", "softmax(x, axes = [1] * N)"), "known only at run time", 15),
    "cast of it": (("neg(x)", "x * scalar(N)"), "known only at run time", 15),
    "operand": (("neg(x)", "copy(N)"), "known only at run time", 15),
    "constant": (("neg(x)", "constant(shape = [N], value = [1.0])"), "only at run time", 15),
    "condition": (("neg(x)", "x if N > 4 else -x"), "known only at run time", 15),
}


@pytest.mark.parametrize("case", FAULTS)
def test_what_has_no_exact_meaning_is_refused(case: str) -> None:
    (old, new), message, line = FAULTS[case]
    with pytest.raises(NnefError, match=message) as caught:
        tvm_nnef.convert(document("neg(x)").replace(old, new), vendor="tract")
    found = caught.value.diagnostics[0]
    assert found.hint
    assert found.line == line


def test_never_without_the_option() -> None:
    with pytest.raises(NnefError, match="'tract_registry' is not known") as caught:
        tvm_nnef.convert(document("neg(x)"))
    assert [each.line for each in caught.value.diagnostics] == [2, 3, 4, 5]
    assert "--vendor tract" in (caught.value.diagnostics[0].hint or "")


def test_unused_symbols_need_no_bound() -> None:
    text = document("neg(x)").replace(
        "tract_symbol N;", "tract_symbol N; extension tract_symbol M;"
    )
    assert tvm_nnef.convert(text, vendor="tract").graphs == ("net",)
    with pytest.raises(NnefError, match="'M' is not a dimension of an input"):
        tvm_nnef.convert(text.replace("neg(x)", "reshape(x, shape = [M, -1])"), vendor="tract")


def test_input_shapes_of_a_plain_document() -> None:
    text = """version 1.0; graph g(x) -> (y) {
    x = external(shape = [1, 3, 8, 8]);
    w = constant(shape = [4, 3, 3, 3], value = [0.5]);
    p = max_pool(conv(x, w), size = [1, 1, 2, 2], stride = [1, 1, 2, 2], border = 'ignore');
    y = softmax(reshape(p, shape = [0, -1])); }"""
    text = text.replace("1.0;", "1.0; extension KHR_enable_operator_expressions;", 1)
    model = tvm_nnef.convert(text, input_shapes={"x": ("N", 3, 8, 8)}, bounds={"N": 4})
    x = np.random.default_rng(0).normal(size=(3, 3, 8, 8)).astype(np.float32)
    (found,) = tvm_nnef.evaluate(model, x)
    for item, expected in zip(x, found, strict=True):
        (single,) = tvm_nnef.evaluate(tvm_nnef.convert(text), item[None])
        np.testing.assert_allclose(expected, single[0], rtol=1e-5)
    fixed = tvm_nnef.convert(text.replace("[0, -1]", "[1, 64]"))
    assert tvm_nnef.evaluate(fixed, x[:1])[0].shape == (1, 64)
    with pytest.raises(NnefError, match="cannot be reshaped") as caught:
        tvm_nnef.convert(
            text.replace("[0, -1]", "[1, 64]"), input_shapes={"x": ("N", 3, 8, 8)}, bounds=4
        )
    assert caught.value.diagnostics[0].line == 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input_shapes": {"x": (1,)}}, "1 dimensions"),
        ({"input_shapes": {"x": (0, 3)}}, "not positive"),
        ({"input_shapes": {"z": (1, 3)}}, "no input 'z'"),
        ({"bounds": {"M": 3}}, "is named 'M'"),
    ],
)
def test_faults_in_shapes(options: dict[str, object], message: str) -> None:
    text = "version 1.0; graph g(x) -> (y) { x = external(shape = [1, 3]); y = neg(x); }"
    with pytest.raises(NnefError, match=message):
        tvm_nnef.convert(text, **options)


def test_integers_that_tract_marks_as_quantized(tmp_path: Path) -> None:
    text = document("gather(x, v)").replace(
        "  y =", "  v = variable<integer>(shape = [2], label = 'v');\n  y ="
    )
    (tmp_path / "graph.nnef").write_text(text)
    stored = TensorFile(np.array([2, 0], np.int64), ItemType.QUANTIZED_INT, 64)
    (tmp_path / "v.dat").write_bytes(write_tensor(stored))
    model = tvm_nnef.convert(tmp_path, vendor="tract")
    np.testing.assert_array_equal(tvm_nnef.evaluate(model, X)[0], X[[2, 0]])


def stored(folder: Path, text: str, **variables: np.ndarray) -> Path:
    (folder / "graph.nnef").write_text(text)
    for name, value in variables.items():
        (folder / f"{name}.dat").write_bytes(write_tensor(value))
    return folder


def test_a_variable_of_rank_0_is_an_attribute(tmp_path: Path) -> None:
    text = document("tract_core_rms_norm(x, axis = 2, eps = e)").replace(
        "  y =", "  e = variable<scalar>(shape = [], label = 'e');\n  y ="
    )
    folder = stored(tmp_path, text, e=np.float32(0.1))
    model = tvm_nnef.convert(folder, vendor="tract")
    expected = X / np.sqrt((X**2).mean(2, keepdims=True) + 0.1)
    np.testing.assert_allclose(tvm_nnef.evaluate(model, X)[0], expected, rtol=1e-5)


def test_the_bias_of_a_convolution_is_a_vector(tmp_path: Path) -> None:
    text = document("conv(x, w, b)").replace(
        "  y =",
        "  w = variable<scalar>(shape = [2, 4, 1], label = 'w');\n"
        "  b = variable<scalar>(shape = [2], label = 'b');\n  y =",
    )
    w, b = np.arange(8, dtype=np.float32).reshape(2, 4, 1), np.float32([10, 20])
    model = tvm_nnef.convert(stored(tmp_path, text, w=w, b=b), vendor="tract")
    expected = np.einsum("ncx,oc->nox", X, w[:, :, 0]) + b[:, None]
    np.testing.assert_allclose(tvm_nnef.evaluate(model, X)[0], expected, rtol=1e-5)


ATTENTION = "tract_transformers_sdpa(x, x, x{}, datum_type = 'f32', acc_datum_type = 'f32'{})"


def test_the_last_query_attends_to_the_last_key() -> None:
    text = document(
        "tract_transformers_sdpa(slice(x, axes = [1], begin = [0], end = [2]), x, x, "
        "datum_type = 'f32', acc_datum_type = 'f32', is_causal = true)"
    ).replace("tract_core;", "tract_core;\nextension tract_registry tract_transformers;", 1)
    (found,) = tvm_nnef.evaluate(tvm_nnef.convert(text, vendor="tract"), X)
    mask = np.float32([[0, 0, 0, -np.inf], [0, 0, 0, 0]])
    weights = special.softmax(X[:, :2] @ X.swapaxes(1, 2) * np.float32(2**-0.5) + mask, -1)
    np.testing.assert_allclose(found, weights @ X, rtol=1e-5)


@pytest.mark.parametrize("variant", ["plain", "causal", "scaled", "masked"])
def test_attention(variant: str) -> None:
    mask, given, scale = np.zeros((4, 4), "f"), ("", ", is_causal = false"), 2**-0.5
    if variant == "causal":
        mask, given = np.triu(np.full((4, 4), -np.inf, "f"), 1), ("", ", is_causal = true")
    if variant == "scaled":
        scale, given = 0.25, ("", ", is_causal = false, scale = 0.25")
    if variant == "masked":
        mask = np.float32([0, 1, 2, 3])
        given = (", [[[0.0, 1.0, 2.0, 3.0]]]", ", is_causal = false")
    text = document(ATTENTION.format(*given)).replace("tract_core;", "tract_transformers;", 1)
    if variant == "masked":
        text = text.replace(given[0], ", m").replace(
            "  y =", "  m = constant(shape = [1, 1, 4], value = [0.0, 1.0, 2.0, 3.0]);\n  y ="
        )
    model = tvm_nnef.convert(text, vendor="tract")
    weights = special.softmax(X @ X.swapaxes(1, 2) * np.float32(scale) + mask, -1)
    np.testing.assert_allclose(tvm_nnef.evaluate(model, X)[0], weights @ X, rtol=1e-5)


def block_file(
    shape: tuple[int, ...], numbers: np.ndarray, scales: np.ndarray, order: str
) -> bytes:
    """A tensor file as tract writes blocks: 32 numbers of 4 bits after a float16."""
    data = b""
    for row, scale in zip(numbers.reshape(-1, 32).tolist(), scales.tolist(), strict=True):
        low, high = (row[:16], row[16:]) if order == "halves" else (row[::2], row[1::2])
        pairs = zip(low, high, strict=True)
        data += struct.pack("<e", scale) + bytes(a | b << 4 for a, b in pairs)
    item_type = 0x3040 if order == "halves" else 0x2040
    extents = (*shape, *[0] * (8 - len(shape)))
    head = struct.pack("<2s2BII8IIHH", b"\x4e\xef", 1, 0, len(data), len(shape), *extents,
                       0xFFFFFFFF, item_type, 0x5452)  # fmt: skip
    return head.ljust(128, b"\0") + data


BLOCKS = document("x * v").replace(
    "  y =", "  v = variable<scalar>(shape = [1, 4, 16], label = 'v');\n  y ="
).replace("4, 2]", "4, 16]")  # fmt: skip


@pytest.mark.parametrize("order", ["halves", "pairs"])
def test_blocks_of_small_numbers(order: str, tmp_path: Path) -> None:
    numbers = np.random.default_rng(3).integers(0, 16, 64)
    scales = np.array([0.25, -1.5], np.float16)
    (tmp_path / "graph.nnef").write_text(BLOCKS)
    (tmp_path / "v.dat").write_bytes(block_file((1, 4, 16), numbers, scales, order))
    model = tvm_nnef.convert(tmp_path, vendor="tract")
    expected = ((numbers - 8) * np.repeat(scales, 32)).reshape(1, 4, 16)
    found = tvm_nnef.evaluate(model, np.ones((1, 4, 16), np.float32))[0]
    np.testing.assert_array_equal(found, expected)


def test_damaged_blocks(tmp_path: Path) -> None:
    (tmp_path / "graph.nnef").write_text(BLOCKS)
    good = block_file((1, 4, 16), np.zeros(64, int), np.zeros(2), "halves")
    (tmp_path / "v.dat").write_bytes(good[:-1])
    with pytest.raises(NnefError, match="64 numbers in blocks of 32 need 164 bytes, got 163"):
        tvm_nnef.convert(tmp_path, vendor="tract")
    other = block_file((4, 16), np.zeros(64, int), np.zeros(2), "halves")
    (tmp_path / "v.dat").write_bytes(other)
    with pytest.raises(NnefError, match=r"shape \[1, 4, 16\], its file .* has \[4, 16\]"):
        tvm_nnef.convert(tmp_path, vendor="tract")


def test_blocks_need_the_option(tmp_path: Path) -> None:
    text = "version 1.0; graph g(x) -> (y) { x = external(shape = [64]); " \
        "v = variable<scalar>(shape = [64], label = 'v'); y = mul(x, v); }"  # fmt: skip
    (tmp_path / "graph.nnef").write_text(text)
    (tmp_path / "v.dat").write_bytes(block_file((64,), np.zeros(64, int), np.zeros(2), "halves"))
    with pytest.raises(NnefError, match="blocks of 4-bit numbers") as caught:
        tvm_nnef.convert(tmp_path)
    assert "--vendor tract" in (caught.value.diagnostics[0].hint or "")
