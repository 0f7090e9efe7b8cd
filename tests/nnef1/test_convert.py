"""NNEF 1 models as SkriptND models: names, fragments, quantization, updates, errors."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import tvm_nnef
from tvm_nnef.converters.nnef1 import convert
from tvm_nnef.diagnostics import NnefError
from tvm_nnef.model.model import Model, save_model
from tvm_nnef.storage.tensor_file import write_tensor

EXTENSIONS = """version 1.0;
extension KHR_enable_fragment_definitions KHR_enable_operator_expressions;
"""
Array = NDArray[Any]
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """A model folder of a graph, a quantization file, and variables by label."""

    def made(graph: str, quant: str = "", **variables: Array) -> Path:
        folder = tmp_path / "model"
        folder.mkdir(exist_ok=True)
        (folder / "graph.nnef").write_text(graph)
        if quant:
            (folder / "graph.quant").write_text(quant)
        for label, array in variables.items():
            path = folder / f"{label.replace('__', '/')}.dat"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(write_tensor(array))
        return folder

    return made


def text_of(model: Model, tmp_path: Path) -> str:
    save_model(model, tmp_path / "saved", overwrite=True)
    return (tmp_path / "saved" / "main.sknd").read_text()


def array(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


RESIDUAL = (
    EXTENSIONS
    + """
fragment scaled( x: tensor<scalar>, factor: scalar = 2.0 ) -> ( y: tensor<scalar> )
{
    y = x * factor;
}

fragment block( x: tensor<scalar>, weight: tensor<scalar>, n: integer = 1 )
-> ( y: tensor<scalar> )
{
    all = [for i in range_of([0] * n) yield scaled(x)];
    t = matmul(all[0], weight);
    y = relu(t) + x;
}

graph net( input ) -> ( output )
{
    input = external(shape = [2, 4]);
    w1 = variable(shape = [4, 4], label = 'layer1/weight');
    w2 = variable(shape = [4, 4], label = 'layer2/weight');
    a = block(input, w1);
    b = block(a, w2);
    output = block(b, w1, n = 2);
}
"""
)


def test_fragments_become_operators(write: Write, tmp_path: Path) -> None:
    w1, w2, x = array(4, 4), array(4, 4, seed=1), array(2, 4, seed=2)
    model = convert(write(RESIDUAL, layer1__weight=w1, layer2__weight=w2))
    text = text_of(model, tmp_path)
    assert "public operator scaled {" in text
    assert "public operator block {" in text
    assert "x: real[2, 4];\n        weight: real[4, 4];" in text
    assert "a = a_block: block(input, layer1_weight);" in text
    assert "b = b_block: block(a, layer2_weight);" in text

    def block(h: Array, w: Array) -> Array:
        return np.maximum(2 * h @ w, 0) + h

    (y,) = tvm_nnef.evaluate(model, x)
    np.testing.assert_allclose(y, block(block(block(x, w1), w2), w1), rtol=1e-5)


def test_names_of_the_source_are_kept(write: Write) -> None:
    model = convert(write(RESIDUAL, layer1__weight=array(4, 4), layer2__weight=array(4, 4)))
    names = model.metadata.source_names
    assert names["main.net.layer1_weight"] == "layer1/weight"
    assert names["main.net.a_block.t"] == "a/t"
    assert next(iter(tvm_nnef.compose(model).outputs)).name.endswith("output")


def test_the_same_input_gives_the_same_text(write: Write, tmp_path: Path) -> None:
    path = write(RESIDUAL, layer1__weight=array(4, 4), layer2__weight=array(4, 4))
    assert text_of(convert(path), tmp_path) == text_of(convert(path), tmp_path)


def test_unsafe_names(tmp_path: Path) -> None:
    text = """version 1.0;
    graph graph_( input ) -> ( operator, inf )
    { input = external(shape = [2]); operator = relu(input); inf = exp(operator); }"""
    model = convert(text)
    x = array(2)
    first, second = tvm_nnef.evaluate(model, x)
    np.testing.assert_allclose(first, np.maximum(x, 0))
    np.testing.assert_allclose(second, np.exp(np.maximum(x, 0)), rtol=1e-6)
    assert "operator" in model.metadata.source_names.values()


def test_repeated_statements_are_outlined(tmp_path: Path) -> None:
    steps = "".join(
        f"h{n} = exp(a{n}); i{n} = sin(h{n}); j{n} = cos(i{n}); k{n} = tanh(j{n}); "
        f"a{n + 1} = add(k{n}, a{n}); "
        for n in range(5)
    )
    text = f"version 1.0; graph g(a0) -> (a5) {{ a0 = external(shape = [3]); {steps} }}"
    assert text_of(convert(text), tmp_path).count("math.exp") < 3
    assert text_of(convert(text, outline=False), tmp_path).count("math.exp") == 5


SINGLE = "version 1.0; graph g(x) -> (y) {{ x = external<{}>(shape = {}); y = {}; }}"


def test_types_of_inputs() -> None:
    model = convert(SINGLE.format("integer", "[3]", "copy(x)"), dtypes={"x": "int64"})
    (y,) = tvm_nnef.evaluate(model, np.array([1, 2, 2**40]))
    assert y.dtype == np.int64
    (z,) = tvm_nnef.evaluate(
        convert(SINGLE.format("logical", "[2]", "not(x)")), np.array([True, False])
    )
    np.testing.assert_array_equal(z, [False, True])


@pytest.mark.parametrize("kind", ["folder", "file", "tar", "tgz", "inner folder"])
def test_kinds_of_sources(kind: str, write: Write, tmp_path: Path) -> None:
    path = write(SINGLE.format("scalar", "[2]", "neg(x)"))
    if kind == "file":
        path = path / "graph.nnef"
    elif kind != "folder":
        packed = tmp_path / "packed"
        with tarfile.open(packed, "w:gz" if kind == "tgz" else "w") as archive:
            archive.add(path, "m" if kind == "inner folder" else ".")
        path = packed
    (y,) = tvm_nnef.evaluate(convert(path), np.array([1.0, -2.0], np.float32))
    np.testing.assert_array_equal(y, [-1, 2])
    assert tvm_nnef.convert(path).graphs == ("g",)


def test_updates_change_variables_from_run_to_run(write: Write) -> None:
    """Section 4.8; reads in the same run have the value from before."""
    graph = """version 1.0;
    graph g(x) -> (before, after)
    {
        x = external(shape = [2]);
        state = variable(shape = [2], label = 'state');
        before = copy(state);
        sum = add(state, x);
        after = update(state, sum);
    }"""
    model = convert(write(graph, state=np.array([1, 2], np.float32)))
    run = tvm_nnef.build(model, progress=False)
    x = np.array([10, 20], np.float32)
    first = [np.asarray(each) for each in run(x)]
    second = [np.asarray(each) for each in run(x)]
    np.testing.assert_array_equal(first, [[1, 2], [11, 22]])
    np.testing.assert_array_equal(second, [[11, 22], [21, 42]])


def linear(x: Array, low: float, high: float, bits: int) -> Array:
    """Section 4.9.5."""
    r = 2.0**bits - 1
    q = np.floor((np.clip(x, low, high) - low) / (high - low) * r + 0.5)
    return np.asarray(q / r * (high - low) + low)


QUANTIZED = """version 1.0;
graph g(x) -> (y)
{
    x = external(shape = [2, 4]);
    w = variable(shape = [4, 4], label = 'weight');
    h = matmul(x, w);
    r = relu(h);
    y = add(r, h);
}
"""


def test_quantization_file(write: Write, tmp_path: Path) -> None:
    """Each tensor is quantized after it was computed, before anything reads it (section 7.1)."""
    quant = """
    "x": linear_quantize(min = -1.0, max = 1.0, bits = 4);
    "w": min_max_linear_quantize(min = -2.0, max = 2.0, bits = 3, signed = true, symmetric = true);
    'h': zero_point_linear_quantize(zero_point = 2, scale = 0.25, bits = 5, signed = true,
                                    symmetric = false);
    "r": logarithmic_quantize(max = 4.0, bits = 3);
    "y": linear_quantize(min = 0.0, max = 5.0, bits = 2 + 3);
    """
    w, x = array(4, 4), array(2, 4, seed=1)
    model = convert(write(QUANTIZED, quant, weight=w))
    text = text_of(model, tmp_path)
    assert "@quantize {" in text
    assert "y: quant.min_max_linear_quantize{min=0.0, max=5.0, bits=5" in text

    xq = linear(x, -1, 1, 4)
    steps = 2.0**3 - 1 - 1
    wq = np.floor((np.clip(w, -2, 2) + 2) / 4 * steps + 0.5) / steps * 4 - 2
    h = xq @ wq
    hq = (np.clip(np.floor(h / 0.25 + 0.5) + 2, -16, 15) - 2) * 0.25
    r = np.maximum(hq, 0)
    with np.errstate(divide="ignore"):
        power = np.floor(np.clip(np.log2(np.abs(r)), 2 - 7, 2) + 0.5)
    rq = np.sign(r) * 2.0**power
    expected = linear(rq + hq, 0, 5, 5)
    (y,) = tvm_nnef.evaluate(model, x)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)


def test_a_fragment_can_quantize(write: Write) -> None:
    graph = QUANTIZED.replace(
        "graph g",
        "fragment halves( x: tensor<scalar>, n: scalar ) -> ( y: tensor<scalar> )"
        "{ y = round(x * n) / n; }\ngraph g",
    ).replace("version 1.0;", EXTENSIONS)
    w, x = array(4, 4), array(2, 4, seed=1)
    model = convert(write(graph, '"h": halves(n = 2.0);', weight=w))
    h = np.floor(x @ w * 2 + 0.5) / 2
    (y,) = tvm_nnef.evaluate(model, x)
    np.testing.assert_allclose(y, np.maximum(h, 0) + h, rtol=1e-5)


def test_quantized_tensors_inside_fragments_that_repeat(write: Write) -> None:
    """The readers inside of an operator see the quantized tensor, those of its twin do not."""
    graph = (
        EXTENSIONS
        + """
    fragment f( x: tensor<scalar> ) -> ( y: tensor<scalar>, z: tensor<scalar> )
    { y = x * 3.0; z = y + 1.0; }
    graph g(x) -> (b, d)
    { x = external(shape = [2, 4]); a, b = f(x); c, d = f(b); }"""
    )
    model = convert(write(graph, '"a": linear_quantize(min = -3.0, max = 3.0, bits = 2);'))
    x = array(2, 4)
    b = linear(x * 3, -3, 3, 2) + 1
    for got, expected in zip(tvm_nnef.evaluate(model, x), (b, b * 3 + 1), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5)


QUANTIZATION_FAULTS = {
    "nothing": (
        '"hh": linear_quantize(min = 0.0, max = 1.0, bits = 8);',
        "no tensor 'hh'",
        "'h'",
        1,
    ),
    "label": ('"weight": linear_quantize(min = 0.0, max = 1.0, bits = 8);', "no tensor", "'w'", 1),
    "operation": (
        '"h": linear_quantise(min = 0.0, max = 1.0, bits = 8);',
        "no operation",
        "quantize",
        6,
    ),
    "argument": ('"h": linear_quantize(min = 0.0, max = 1.0);', "lacks 'bits'", "integer", 6),
    "type": ('"h": linear_quantize(min = 0, max = 1.0, bits = 8);', "got integer", "'1.0'", 28),
    "positional": ('"h": linear_quantize(0.0, max = 1.0, bits = 8);', "are named", "write", 22),
    "range": ('"h": linear_quantize(min = 1.0, max = 1.0, bits = 8);', "is empty", "range", 1),
    "bits": (
        '"h": linear_quantize(min = 0.0, max = 1.0, bits = 2000000000);',
        "'bits' is 2000000000",
        "1 to 32",
        1,
    ),
    "infinite": (
        '"h": linear_quantize(min = 0.0, max = 1.0 / 0.0, bits = 8);',
        "is empty",
        "range",
        1,
    ),
    "syntax": ('"h": linear_quantize(min = 1.0;', "unexpected", "')'", 31),
    "twice": (
        '"h": linear_quantize(min = 0.0, max = 1.0, bits = 8);' * 2,
        "quantized twice",
        "remove",
        54,
    ),
    "no tensor": ('"h": argmax_reduce(axes = [1]);', "does not quantize", "linear_quantize", 6),
    "tensor": ('"h": linear_quantize(min = x, max = 1.0, bits = 8);', "'x' is not defined", "", 28),
}


@pytest.mark.parametrize("case", QUANTIZATION_FAULTS)
def test_faults_in_quantization_files(case: str, write: Write) -> None:
    line, message, hint, column = QUANTIZATION_FAULTS[case]
    with pytest.raises(NnefError) as caught:
        convert(write(QUANTIZED, line, weight=array(4, 4)))
    (found, *_) = caught.value.diagnostics
    assert message in found.message
    assert hint in (found.hint or "")
    assert found.path is not None
    assert found.path.endswith("graph.quant")
    assert found.column == column


def test_shape_of_in_a_fragment_of_section_4_3_4() -> None:
    """The shape is known when the fragment is expanded; the values are those of the formula."""
    text = f"""{EXTENSIONS}
    fragment _linear_upsample2x_symmetric( input: tensor<scalar>, border: string )
    -> ( output: tensor<scalar> )
    {{
        channels = shape_of(input)[1];
        filter = constant(shape = [channels, 1, 4],
                          value = [0.25, 0.75, 0.75, 0.25] * channels);
        output = deconv(input, filter, stride = [2], padding = [(1,1)],
                        border = border, groups = channels);
    }}
    graph g(x) -> (y)
    {{
        x = external(shape = [1, 2, 3]);
        y = _linear_upsample2x_symmetric(x, border = 'constant');
    }}"""
    x = array(1, 2, 3)
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1)])
    expected = np.empty((1, 2, 6))
    expected[..., 0::2] = 0.75 * x + 0.25 * padded[..., :-2]
    expected[..., 1::2] = 0.75 * x + 0.25 * padded[..., 2:]
    (y,) = tvm_nnef.evaluate(convert(text), x)
    np.testing.assert_allclose(y, expected, rtol=1e-5)


CUSTOM = """version 1.0; extension KHR_enable_fragment_definitions;
fragment cube( x: tensor<scalar>, times: integer = 1 ) -> ( y: tensor<scalar> );
graph g(x) -> (y) { x = external(shape = [2]); y = cube(x); }
"""


def test_a_fragment_without_a_body_needs_a_converter() -> None:
    with pytest.raises(NnefError) as caught:
        convert(CUSTOM)
    (found,) = caught.value.diagnostics
    assert "'cube'" in found.message
    assert "converters={'cube': function}" in (found.hint or "")
    assert found.line == 3

    def cube(operation: Any, builder: Any) -> Any:
        x = operation.tensor("x")
        for _ in range(operation.integer("times")):
            x = builder.call("math.mul", builder.call("math.mul", x, x), x)
        return x

    (y,) = tvm_nnef.evaluate(convert(CUSTOM, converters={"cube": cube}), array(2))
    np.testing.assert_allclose(y, array(2) ** 3, rtol=1e-5)


def test_a_faulty_converter_is_reported_with_its_operation() -> None:
    def cube(operation: Any, builder: Any) -> Any:
        return operation.tensor("z")

    with pytest.raises(NnefError) as caught:
        convert(CUSTOM, converters={"cube": cube})
    (found,) = caught.value.diagnostics
    assert found.line == 3
    assert "KeyError" in (found.hint or "")


def test_a_document_may_define_a_standard_operation_anew() -> None:
    """Its own body counts then: documents for older versions define what became standard later."""
    text = f"""{EXTENSIONS}
    fragment silu( x: tensor<scalar> ) -> ( y: tensor<scalar> ) {{ y = x * 2.0; }}
    graph g(x) -> (y) {{ x = external(shape = [2]); y = silu(x); }}"""
    (y,) = tvm_nnef.evaluate(convert(text), array(2))
    np.testing.assert_allclose(y, array(2) * 2)


CONVERSION_FAULTS = {
    "shapes": ("a = add(x, w); b = relu(a); c = matmul(x, x);", ["add", "matmul"]),
    "fragment": ("a = twice(w); b = relu(a);", ["add"]),
    "axes": ("a = softmax(x, axes = [7]);", ["softmax"]),
}


@pytest.mark.parametrize("case", CONVERSION_FAULTS)
def test_operations_that_cannot_be_converted(case: str) -> None:
    body, operations = CONVERSION_FAULTS[case]
    text = f"""{EXTENSIONS}
    fragment twice( x: tensor<scalar> ) -> ( y: tensor<scalar> )
    {{ z = constant(shape = [7], value = [1.0]); y = x + z; }}
    graph g(x, w) -> (y)
    {{
        x = external(shape = [2, 3]);
        w = external(shape = [5, 3]);
        {body}
        y = relu(x);
    }}"""
    with pytest.raises(NnefError) as caught:
        convert(text)
    found = caught.value.diagnostics
    assert [each.message.split("'")[1] for each in found] == operations
    assert all(each.span and each.hint for each in found)
    if case == "fragment":
        assert found[0].line == 5
        assert [each.message for each in found[0].notes] == ["in the expansion of 'twice'"]


@pytest.mark.parametrize("shape", ["[0]", "[2, -1]", "[4000000000, 4000000000]"])
def test_shapes_of_inputs_are_checked(shape: str) -> None:
    with pytest.raises(NnefError) as caught:
        convert(SINGLE.format("scalar", shape, "neg(x)"))
    (found,) = caught.value.diagnostics
    assert found.span is not None
    assert found.hint


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtypes": {"z": "float32"}}, "no input 'z'"),
        ({"dtypes": {"x": "complex64"}}, "complex64"),
        ({"dtypes": {"x": "int32"}}, "of type scalar, which is not int32"),
        ({"converters": {"rellu": print}}, "no operation 'rellu'"),
        ({"converters": {"relu": 3}}, "is not a function"),
        ({"vendor": "tracd"}, "'tracd'"),
    ],
)
def test_faults_in_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(NnefError, match=message) as caught:
        convert(SINGLE.format("scalar", "[2]", "neg(x)"), **options)
    assert caught.value.diagnostics[0].hint


@pytest.mark.parametrize("operation", ["external", "constant"])
def test_tensors_of_strings(operation: str) -> None:
    text = SINGLE.format("scalar", "[1]", "constant<string>(shape = [1], value = ['a'])")
    if operation == "external":
        text = SINGLE.format("string", "[1]", "copy(x)")
    with pytest.raises(NnefError, match="type string cannot be converted"):
        convert(text)


def test_missing_graph(tmp_path: Path) -> None:
    with pytest.raises(NnefError, match=r"has no 'graph\.nnef'"):
        convert(tmp_path)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (None, "'f': its converter returns a NoneType"),
        ([None, []], "'f': its converter returns a NoneType as 'y'"),
        ([[]], "'f': its converter returns 1 results for 2"),
    ],
)
def test_converters_that_return_no_tensors(result: Any, message: str) -> None:
    text = """version 1.0; extension KHR_enable_fragment_definitions;
    fragment f(x: tensor<scalar>) -> (y: tensor<scalar>, z: tensor<scalar>[]);
    graph g(x) -> (y) { x = external(shape = [2]); y, [a] = f(x); }"""
    with pytest.raises(NnefError) as caught:
        convert(text, converters={"f": lambda operation, builder: result})
    (found,) = caught.value.diagnostics
    assert (found.message, found.line) == (message, 3)
