"""The examples of the specification: chapter 3, sections 7.1 and 7.2, appendix B, and the compound
operations of chapter 4 as they are flattened (chapter 6).
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tvm_nnef.converters.nnef1.checking import check
from tvm_nnef.converters.nnef1.fragments import standard
from tvm_nnef.converters.nnef1.parser import parse, parse_quantization
from tvm_nnef.converters.nnef1.quantization import quantizers
from tvm_nnef.diagnostics import Diagnostic, Source

Flatten = Callable[..., list[str]]
Problems = Callable[[str], tuple[Diagnostic, ...]]

FOO_BAR = """
fragment foo( input: tensor<scalar>, size: integer[] = [1] )
-> ( output: tensor<scalar> );
fragment bar( input: tensor<scalar>, alpha: scalar = 0.5 )
-> ( output: tensor<scalar>, extra: tensor<scalar>[] );
"""


def test_declarations_and_graph_of_section_3_2(flatten: Flatten) -> None:
    """3.2.1 and 3.2.2; the number of tensors in ``extra`` is known from the left-hand side."""
    assert flatten(
        "intermediate, [extra] = bar(x, alpha = 2.0); y = foo(intermediate, size = [3,5]);", FOO_BAR
    ) == [
        "intermediate, [extra] = bar(x, alpha = 2.0)",
        "y = foo(intermediate, size = [3, 5])",
    ]


def test_graph_of_section_3_2_1_as_printed_breaks_later_rules(problems: Problems) -> None:
    """``alpha = 2`` is an integer and ``extra`` an array, which section 3.3 does not allow."""
    found = problems(
        "version 1.0; extension KHR_enable_fragment_definitions;"
        + FOO_BAR
        + """graph barfoo( input ) -> ( output )
        {
            input = external(shape = [1,10]);
            intermediate, extra = bar(input, alpha = 2);
            output = foo(intermediate, size = [3,5]);
        }"""
    )
    assert {each.message for each in found} == {
        "'alpha' of 'bar' is of type scalar, got integer",
        "the result of type tensor<scalar>[] has one name",
    }


def test_document_of_section_3_2_4() -> None:
    text = """
version 1.0;
extension KHR_enable_fragment_definitions;

fragment foo( input: tensor<scalar>, flag: logical ) -> ( output: tensor<scalar> )
{
    output = relu(input);
}

fragment bar( input: tensor<scalar>, param: scalar ) -> ( output: tensor<scalar> )
{
    output = leaky_relu(input, alpha = param);
}

graph foobar( input ) -> ( output )
{
    input = external(shape = [4,10]);
    hidden = foo(input, flag = true);
    output = bar(hidden, param = 3.14);
}
"""
    checked = check(parse(Source("graph.nnef", text)))
    assert checked.document.graph.name.name == "foobar"


def test_generic_types_of_section_3_3_1(flatten: Flatten) -> None:
    fragments = """
    fragment buzz<?>( input: tensor<?>, param: ? ) -> ( output: tensor<?> );
    fragment fizz<? = scalar>( shape: integer[] ) -> ( output: tensor<?> );
    fragment wrapped<? = scalar>( shape: integer[] ) -> ( output: tensor<?> )
    { output = copy<?>(fizz<?>(shape = shape)); }
    """
    body = "a = fizz<integer>(shape = [1]); b = fizz(shape = [2]); c = buzz(a, param = 3); "
    body += "y = wrapped(shape = [4]);"
    assert flatten(body, fragments) == [
        "a = fizz<integer>(shape = [1])",
        "b = fizz<scalar>(shape = [2])",
        "c = buzz<integer>(a, param = 3)",
        "y/fizz = fizz<scalar>(shape = [4])",
        "y = copy<scalar>(y/fizz)",
    ]


def test_generic_types_must_agree(problems: Problems) -> None:
    (found,) = problems(
        "version 1.0; extension KHR_enable_fragment_definitions;"
        "fragment buzz<?>( input: tensor<?>, param: ? ) -> ( output: tensor<?> );"
        "graph g(x) -> (y) { x = external(shape = [1]); y = buzz(x, param = 1); }"
    )
    assert "can be integer or scalar" in found.message


def test_operators_of_section_3_3_3(flatten: Flatten) -> None:
    assert flatten("y = x + 3.14;") == ["y = add(x, y = 3.14)"]
    both = flatten("b = copy(x); c = copy(x); d = copy(x); y = b + c * d;")
    assert both[3:] == ["y/mul = mul(c, d)", "y = add(b, y/mul)"]


F_AND_G = """
fragment f( x: tensor<scalar> ) -> ( y: tensor<scalar> );
fragment g( x: tensor<scalar>, y: tensor<scalar> ) -> ( z: tensor<scalar> );
"""


def test_invocation_chaining(flatten: Flatten) -> None:
    """``z = g(f(x), y)`` is ``t = f(x); z = g(t, y)``."""
    assert flatten("u = copy(x); y = g(f(x), u);", F_AND_G)[1:] == ["y/f = f(x)", "y = g(y/f, u)"]


def test_tuples(flatten: Flatten) -> None:
    """``a, b, c = t`` is ``a = t[0]; b = t[1]; c = t[2]``."""
    fragments = """
    fragment p( t: (tensor<scalar>,tensor<scalar>,tensor<scalar>) )
    -> ( r: tensor<scalar> ) { a, b, c = t; r = a * b - c; }
    fragment q( t: (tensor<scalar>,tensor<scalar>,tensor<scalar>) )
    -> ( r: tensor<scalar> ) { a = t[0]; b = t[1]; c = t[2]; r = a * b - c; }
    """
    first = flatten("y = p((x, 1.0, 2.0));", fragments)
    assert first == flatten("y = q((x, 1.0, 2.0));", fragments)
    assert first == ["y/mul = mul(x, y = 1.0)", "y = sub(y/mul, y = 2.0)"]


def test_branching_is_lazy(flatten: Flatten) -> None:
    """``add_n`` with a body as in 3.3.3: for no items, ``x[0]`` and ``x[1:]`` are not evaluated."""
    fragment = """
    fragment sum_n( x: tensor<scalar>[] ) -> ( y: tensor<scalar> )
    {
        y = x[0] + sum_n(x[1:]) if length_of(x) > 0 else 0.0;
    }
    """
    assert flatten("u = copy(x); y = sum_n([x, u]);", fragment)[1:] == [
        "y/sum_n = add(u, y = 0.0)",
        "y = add(x, y/sum_n)",
    ]
    assert flatten("y = sum_n([]);", fragment) == [
        "y = constant<scalar>(shape = [], value = [0.0])"
    ]


def test_looping(flatten: Flatten) -> None:
    fragment = """
    fragment all_of( a: tensor<scalar>[] ) -> ( y: tensor<scalar>[] )
    { y = [for i in range_of(a) if i != 1 yield g(f(a[i]), a[i])]; }
    """
    assert flatten("u = copy(x); [v, y] = all_of([x, x, u]);", F_AND_G + fragment)[1:] == [
        "v/f = f(x)",
        "v = g(v/f, x)",
        "v/f_2 = f(u)",
        "y = g(v/f_2, u)",
    ]


QUANTIZED = """version 1.0;
extension KHR_enable_operator_expressions;
graph net( input ) -> ( conv2 )
{
    input = external(shape = [1,3,224,224]);
    filter1 = variable(shape = [32,3,5,5], label = 'conv1/filter');
    bias1 = variable(shape = [1,32], label = 'conv1/bias');
    conv1 = relu(conv(input, filter1) + bias1);
    filter2 = variable(shape = [64,32,3,3], label = 'conv2/filter');
    bias2 = variable(shape = [1,64], label = 'conv2/bias');
    conv2 = relu(conv(conv1, filter2) + bias2);
}
"""


def test_quantization_file_of_section_7_1() -> None:
    lines = "\n".join(
        f'"{name}": linear_quantize(min = {low}, max = 1.0, bits = 8);'
        for name, low in (
            ("input", "0.0"),
            ("filter1", "-1.0"),
            ("bias1", "-1.0"),
            ("conv1", "0.0"),
            ("filter2", "-1.0"),
            ("bias2", "-1.0"),
            ("conv2", "0.0"),
        )
    )
    found, _ = quantizers(
        parse_quantization(Source("graph.quant", lines)),
        check(parse(Source("graph.nnef", QUANTIZED))),
    )
    assert list(found) == ["input", "filter1", "bias1", "conv1", "filter2", "bias2", "conv2"]
    assert found["bias2"].operation == "linear_quantize"
    assert found["bias2"].arguments == {"min": -1.0, "max": 1.0, "bits": 8}


def test_dynamic_quantization_of_section_7_2(flatten: Flatten) -> None:
    body = "conv1 = relu(x); max1 = max_reduce(conv1, axes = [0,1]); "
    body += "y = linear_quantize(conv1, min = 0.0, max = max1, bits = 8);"
    assert flatten(body)[-1] == "y = linear_quantize(conv1, min = 0.0, max1, bits = 8)"


COMPOUNDS = {
    "y = sigmoid(x);": [
        "y/neg = neg(x)",
        "y/exp = exp(y/neg)",
        "y/add = add(x = 1.0, y/exp)",
        "y = div(x = 1.0, y/add)",
    ],
    "y = log2(x);": ["y/log = log(x)", "y/log_2 = log(x = 2.0)", "y = div(y/log, y/log_2)"],
    "y = relu(x);": ["y/gt = gt(x, y = 0.0)", "y = select<scalar>(y/gt, x, false_value = 0.0)"],
    "y = softmax(x);": [
        "y/m = max_reduce(x, axes = [1])",
        "y/e/sub = sub(x, y/m)",
        "y/e = exp(y/e/sub)",
        "y/sum_reduce = sum_reduce(y/e, axes = [1])",
        "y = div(y/e, y/sum_reduce)",
    ],
    "y = area_downsample(x, factor = [2, 3]);": [
        "y = box(x, size = [1, 1, 2, 3], padding = [[0, 0], [0, 0], [0, 0], [0, 0]], "
        "stride = [1, 1, 2, 3], normalize = true)"
    ],
    "a, y = max_pool_with_index(x, size = [1, 2]);": [
        "y = argmax_pool(x, size = [1, 2])",
        "a = sample(x, y, size = [1, 2])",
    ],
    "[a, y] = copy_n(x, times = 2);": ["a = copy<scalar>(x)", "y = copy<scalar>(x)"],
    "m, y = moments(x, axes = [1]);": [
        "m = sum_reduce(x, axes = [1], normalize = true)",
        "y/sub = sub(x, m)",
        "y/sqr = pow(y/sub, y = 2.0)",
        "y = sum_reduce(y/sqr, axes = [1], normalize = true)",
    ],
    "y = avg_roi_align(x, x, cast<integer>(x), output_size = [2, 3], sampling_rate = [2, 2]);": [
        "y/cast = cast<integer>(x)",
        "y/resized = roi_resample(x, x, y/cast, output_size = [4, 6])",
        "y = box(y/resized, size = [2, 2], stride = [2, 2], normalize = true)",
    ],
    "y = local_response_normalization(x, size = [1, 3]);": [
        "y/sigma/sqr = pow(x, y = 2.0)",
        "y/sigma/box = box(y/sigma/sqr, size = [1, 3], normalize = true)",
        "y/sigma/mul = mul(x = 1.0, y/sigma/box)",
        "y/sigma = add(x = 1.0, y/sigma/mul)",
        "y/pow = pow(y/sigma, y = 0.5)",
        "y = div(x, y/pow)",
    ],
}


@pytest.mark.parametrize("statement", COMPOUNDS)
def test_compound_operations_are_flattened(statement: str, flatten: Flatten) -> None:
    assert flatten(statement, operations=frozenset()) == COMPOUNDS[statement]


def test_every_operation_of_chapter_4_is_declared() -> None:
    names = set(standard())
    assert len(names) == 118
    primitive = {name for name, each in standard().items() if each.node.body is None}
    assert {
        "conv",
        "deconv",
        "box",
        "debox",
        "argmax_pool",
        "cast",
        "gather",
        "update",
    } <= primitive
    assert standard()["softmax"].defaults == {"axes": (1,)}
    assert standard()["reshape"].defaults == {"axis_start": 0, "axis_count": -1}
    assert standard()["conv"].defaults == {
        "bias": 0.0,
        "border": "constant",
        "padding": (),
        "stride": (),
        "dilation": (),
        "groups": 1,
    }


def test_linear_quantization_computes_its_constants(flatten: Flatten) -> None:
    """Section 4.9.5: r = 2 ^ bits - 1 - (signed && symmetric), p = 2 ^ (bits - 1) - symmetric."""
    lines = flatten(
        "y = min_max_linear_quantize(x, 0.0, 4.0, bits = 8, signed = true, symmetric = true);",
        operations={"clamp"},
    )
    assert lines == [
        "y/z = clamp(x, a = 0.0, b = 4.0)",
        "y/q/sub = sub(y/z, y = 0.0)",
        "y/q/div = div(y/q/sub, y = 4.0)",
        "y/q/mul = mul(y/q/div, y = 254.0)",
        "y/q/round = round(y/q/mul)",
        "y/q = sub(y/q/round, y = 127.0)",
        "y/add = add(y/q, y = 127.0)",
        "y/div = div(y/add, y = 254.0)",
        "y/mul = mul(y/div, y = 4.0)",
        "y = add(y/mul, y = 0.0)",
    ]


ALEXNET = """
graph AlexNet( input ) -> ( output )
{
    input = external(shape = [1, 3, 224, 224]);
    kernel1 = variable(shape = [64, 3, 11, 11], label = 'alexnet_v2/conv1/kernel');
    bias1 = variable(shape = [1, 64], label = 'alexnet_v2/conv1/bias');
    conv1 = conv(input, kernel1, bias1, padding = [(0,0), (0,0)],
                border = 'constant', stride = [4, 4], dilation = [1, 1]);
    relu1 = relu(conv1);
    pool1 = max_pool(relu1, size = [1, 1, 3, 3], stride = [1, 1, 2, 2],
                    border = 'ignore', padding = [(0,0), (0,0), (0,0), (0,0)]);
    kernel2 = variable(shape = [192, 64, 5, 5], label = 'alexnet_v2/conv2/kernel');
    bias2 = variable(shape = [1, 192], label = 'alexnet_v2/conv2/bias');
    conv2 = conv(pool1, kernel2, bias2, padding = [(2,2), (2,2)],
                border = 'constant', stride = [1, 1], dilation = [1, 1]);
    relu2 = relu(conv2);
    pool2 = max_pool(relu2, size = [1, 1, 3, 3], stride = [1, 1, 2, 2],
                    border = 'ignore', padding = [(0,0), (0,0), (0,0), (0,0)]);
    kernel3 = variable(shape = [384, 192, 3, 3], label = 'alexnet_v2/conv3/kernel');
    bias3 = variable(shape = [1, 384], label = 'alexnet_v2/conv3/bias');
    conv3 = conv(pool2, kernel3, bias3, padding = [(1,1), (1,1)],
                border = 'constant', stride = [1, 1], dilation = [1, 1]);
    relu3 = relu(conv3);
    kernel4 = variable(shape = [384, 384, 3, 3], label = 'alexnet_v2/conv4/kernel');
    bias4 = variable(shape = [1, 384], label = 'alexnet_v2/conv4/bias');
    conv4 = conv(relu3, kernel4, bias4, padding = [(1,1), (1,1)],
                border = 'constant', stride = [1, 1], dilation = [1, 1]);
    relu4 = relu(conv4);
    kernel5 = variable(shape = [256, 384, 3, 3], label = 'alexnet_v2/conv5/kernel');
    bias5 = variable(shape = [1, 256], label = 'alexnet_v2/conv5/bias');
    conv5 = conv(relu4, kernel5, bias5, padding = [(1,1), (1,1)],
                border = 'constant', stride = [1, 1], dilation = [1, 1]);
    relu5 = relu(conv5);
    pool3 = max_pool(relu5, size = [1, 1, 3, 3], stride = [1, 1, 2, 2],
                    border = 'ignore', padding = [(0,0), (0,0), (0,0), (0,0)]);
    kernel6 = variable(shape = [4096, 256, 5, 5], label = 'alexnet_v2/fc6/kernel');
    bias6 = variable(shape = [1, 4096], label = 'alexnet_v2/fc6/bias');
    conv6 = conv(pool3, kernel6, bias6, padding = [(0,0), (0,0)],
                border = 'constant', stride = [1, 1], dilation = [1, 1]);
    relu6 = relu(conv6);
    kernel7 = variable(shape = [4096, 4096, 1, 1], label = 'alexnet_v2/fc7/kernel');
    bias7 = variable(shape = [1, 4096], label = 'alexnet_v2/fc7/bias');
    conv7 = conv(relu6, kernel7, bias7, padding = [(0,0), (0,0)],
                border = 'constant', stride = [1, 1], dilation = [1, 1]);
    relu7 = relu(conv7);
    kernel8 = variable(shape = [1000, 4096, 1, 1], label = 'alexnet_v2/fc8/kernel');
    bias8 = variable(shape = [1, 1000], label = 'alexnet_v2/fc8/bias');
    conv8 = conv(relu7, kernel8, bias8, padding = [(0,0), (0,0)],
                border = 'constant', stride = [1, 1], dilation = [1, 1]);
    output = softmax(conv8);
}
"""


def test_alexnet_of_appendix_b(problems: Problems) -> None:
    """It is flat; only the version is missing there."""
    (found,) = problems(ALEXNET)
    assert "no version" in found.message
    checked = check(parse(Source("graph.nnef", f"version 1.0;{ALEXNET}")))
    assert len(checked.document.graph.body) == 36
