"""What section 3.3 of the specification demands: types, names, arguments, declarations."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tvm_nnef.converters.nnef1.types import (
    EMPTY_ARRAY,
    INTEGER,
    LOGICAL,
    SCALAR,
    ArrayType,
    Primitive,
    TensorType,
    TupleType,
    Type,
    castable,
)
from tvm_nnef.diagnostics import Diagnostic

Problems = Callable[[str], tuple[Diagnostic, ...]]

REAL, UNBOUND = TensorType("scalar"), TensorType(None)
DECLARED = "fragment f(x: tensor<scalar>) -> (y: tensor<scalar>)"
HEADER = "extension KHR_enable_fragment_definitions KHR_enable_operator_expressions;"


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        (SCALAR, REAL, True),
        (INTEGER, REAL, False),
        (INTEGER, SCALAR, False),
        (LOGICAL, UNBOUND, True),
        (REAL, UNBOUND, True),
        (UNBOUND, REAL, False),
        (REAL, SCALAR, False),
        (EMPTY_ARRAY, ArrayType(INTEGER), True),
        (ArrayType(INTEGER), EMPTY_ARRAY, False),
        (ArrayType(SCALAR), ArrayType(REAL), True),
        (ArrayType(ArrayType(SCALAR)), ArrayType(ArrayType(REAL)), True),
        (TupleType((SCALAR, SCALAR)), TupleType((REAL, SCALAR)), True),
        (TupleType((SCALAR,)), TupleType((REAL, SCALAR)), False),
        (Primitive("?"), TensorType("?"), True),
        (INTEGER, TensorType("?"), False),
    ],
)
def test_implicit_casts(source: Type, target: Type, expected: bool) -> None:
    assert castable(source, target) is expected


STATEMENTS = {
    "unknown operation": ("y = rellu(x);", "no operation or fragment 'rellu'", "'relu'"),
    "unknown name": ("y = relu(z);", "'z' is not defined", ""),
    "name of an operation": ("y = relu(conv);", "'conv' is not defined", "an operation"),
    "used before": ("y = relu(z); z = relu(x);", "'z' is not defined", ""),
    "missing argument": ("y = max_reduce(x);", "'max_reduce' lacks 'axes'", "integer[]"),
    "too many arguments": ("y = relu(x, x);", "takes 1 arguments, got 2", "parameters are x"),
    "unknown parameter": ("y = softmax(x, axis = [1]);", "no parameter 'axis'", "'axes'"),
    "argument twice": ("y = softmax(x, axes = [1], axes = [2]);", "given twice", "remove"),
    "positional and named": ("y = softmax(x, x = x);", "given twice", "remove"),
    "positional after named": ("y = softmax(axes = [1], x);", "positional argument after", ""),
    "integer for scalar": ("y = leaky_relu(x, alpha = 1);", "type scalar, got integer", "'1.0'"),
    "integer operand": ("y = x + 1;", "takes tensor<scalar>; got integer", "'1.0'"),
    "scalar for integer": (
        "y = concat([x, x], axis = 1.0);",
        "type integer, got scalar",
        "integer(",
    ),
    "string for array": ("y = softmax(x, axes = '1');", "type integer[], got string", "[1, 2]"),
    "tensor for attribute": ("y = softmax(x, axes = x);", "got tensor<scalar>", "literal"),
    "logical tensor": ("y = relu(x < 0.0);", "got tensor<logical>", "cast<scalar>"),
    "mixed numbers": (
        "y = leaky_relu(x, alpha = 1 + 0.5);",
        "does not take integer and scalar",
        "2.0",
    ),
    "logic of numbers": (
        "y = leaky_relu(x, alpha = 0.1 if 1 else 0.2);",
        "type logical",
        "logical(",
    ),
    "branches": (
        "y = leaky_relu(x, alpha = 0.1 if true else 'a');",
        "scalar and string",
        "one type",
    ),
    "mixed array": ("y = softmax(x, axes = [1, 2.0]);", "several types: integer, scalar", ""),
    "subscript of a tensor": ("y = x[0];", "has no subscript", "'slice'"),
    "subscript of a tuple": (
        "y = softmax(x, axes = [(1, 2)[0 + 1]]);",
        "integer literal",
        "0 to 1",
    ),
    "real subscript": ("y = softmax(x, axes = [[1][0.0]]);", "of type integer", "integer("),
    "range_of a tensor": ("y = softmax(x, axes = range_of(x));", "an array or a string", ""),
    "cast of a tensor": ("y = leaky_relu(x, alpha = scalar(x));", "primitive type", "cast<"),
    "iteration": ("y = softmax(x, axes = [for i in 3 yield i]);", "expected an array", "range_of"),
    "in": ("y = leaky_relu(x, alpha = 0.1 if 1 in ['a'] else 0.2);", "among items of string", ""),
    "generic": ("y = cast(x);", "does not follow from the arguments", "cast<scalar>"),
    "ambiguous": ("y = select(true, x, 1);", "can be integer or scalar", "one type"),
    "not generic": ("y = relu<scalar>(x);", "'relu' is not generic", "relu(...)"),
    "outside": ("y = copy<?>(x);", "outside of a generic fragment", "name a type"),
    "array to one name": ("y = split(x, axis = 0, ratios = [1,1]);", "has one name", "[a, b]"),
    "tensor to two": ("y, z = relu(x);", "does not fit the names", "brackets"),
    "chained": ("y = relu(split(x, axis = 0, ratios = [1]));", "a single tensor", "[a, b]"),
    "not a tensor": ("y = relu(x); n = 3;", "'n' is of type integer", "single tensors"),
    "twice": ("y = relu(x); y = relu(x);", "'y' is assigned before", "another name"),
    "result": ("z = relu(x);", "graph result 'y' is not assigned", ""),
    "external": (
        "y = relu(x); z = external(shape = [1]);",
        "not a parameter of the graph",
        "add it",
    ),
    "external inside": ("y = relu(external(shape = [1]));", "inside an expression", "assign"),
}


@pytest.mark.parametrize("case", STATEMENTS)
def test_statements(case: str, problems: Problems) -> None:
    body, message, hint = STATEMENTS[case]
    text = f"version 1.0; {HEADER} graph g(x) -> (y) {{ x = external(shape = [1]); {body} }}"
    (found, *_) = problems(text)
    assert message in found.message
    assert hint in (found.hint or "")
    assert found.hint
    assert found.span is not None
    assert found.span.start >= text.index("graph g")


FRAGMENTS = {
    "twice": (
        "fragment f(x: tensor<scalar>) -> (y: tensor<scalar>); "
        "fragment f(x: tensor<scalar>) -> (y: tensor<scalar>);",
        "declared twice",
    ),
    "parameters": ("fragment f(x: tensor<>, x: integer) -> (y: tensor<scalar>);", "declared twice"),
    "order": (
        "fragment f(n: integer, x: tensor<>) -> (y: tensor<scalar>);",
        "follows the attribute",
    ),
    "result": ("fragment f(x: tensor<>) -> (y: integer);", "not a tensor type"),
    "unbound result": ("fragment f(x: tensor<>) -> (y: tensor<>);", "not a tensor type"),
    "mixed tuple": ("fragment f(x: (tensor<>, integer)) -> (y: tensor<scalar>);", "mixes tensors"),
    "default": (
        "fragment f(x: tensor<>, n: integer = 1.0) -> (y: tensor<scalar>);",
        "of type scalar",
    ),
    "computed default": (
        "fragment f(x: tensor<>, n: integer = 1 + 1) -> (y: tensor<scalar>);",
        "literals",
    ),
    "not generic": ("fragment f(x: tensor<?>) -> (y: tensor<scalar>);", "not generic"),
    "needlessly generic": (
        "fragment f<?>(x: tensor<>) -> (y: tensor<scalar>);",
        "without a parameter",
    ),
    "parameter assigned": (f"{DECLARED} {{ x = 1.0; y = x; }}", "is a parameter"),
    "result not assigned": (f"{DECLARED} {{ z = x; }}", "is not assigned"),
    "result type": (
        f"{DECLARED} {{ y = x < 0.0; }}",
        "of type tensor<scalar>, got tensor<logical>",
    ),
    "variable": (f"{DECLARED} {{ y = variable(shape = [1], label = 'a'); }}", "inside a fragment"),
    "external": (f"{DECLARED} {{ y = external(shape = [1]); }}", "inside a fragment"),
    "update": (f"{DECLARED} {{ y = update(x, x); }}", "inside a fragment"),
    "standard": (
        "fragment relu(x: tensor<scalar>, a: scalar) -> (y: tensor<scalar>);",
        "standard operation",
    ),
    "itself": (f"{DECLARED} {{ y = f(x) + 1.0; }}", "f → f"),
    "each other": (
        "fragment f(x: tensor<scalar>) -> (y: tensor<scalar>) { y = g(x); } "
        "fragment g(x: tensor<scalar>) -> (y: tensor<scalar>) "
        "{ y = 1.0 if true else f(x); z = f(x); }",
        "→",
    ),
}


@pytest.mark.parametrize("case", FRAGMENTS)
def test_fragments(case: str, problems: Problems) -> None:
    declarations, message = FRAGMENTS[case]
    graph = "graph net(i) -> (o) { i = external(shape = [1]); o = relu(i); }"
    found = problems(f"version 1.0; {HEADER} {declarations} {graph}")
    assert any(message in each.message for each in found)
    assert all(each.hint for each in found)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("", "no version"),
        ("version 2.0;", "version 2.0 is not known"),
        ("version 1.0; extension KHR_enable_fragments;", "'KHR_enable_fragments' is not known"),
        ("version 1.0; extension tract_core;", "'tract_core' is not known"),
        (
            "version 1.0; fragment f(x: tensor<scalar>) -> (y: tensor<scalar>);",
            "fragments need the extension 'KHR_enable_fragment_definitions'",
        ),
    ],
)
def test_headers(header: str, message: str, problems: Problems) -> None:
    (found,) = problems(f"{header} graph g(i) -> (o) {{ i = external(shape = [1]); o = relu(i); }}")
    assert message in found.message
    assert found.hint


@pytest.mark.parametrize("value", ["i + 1.0", "-i", "relu(relu(i))", "[i][0]", "i"])
def test_expressions_need_their_extension(value: str, problems: Problems) -> None:
    (found,) = problems(
        f"version 1.0; graph g(i) -> (o) {{ i = external(shape = [1]); o = {value}; }}"
    )
    assert "KHR_enable_operator_expressions" in found.message


def test_all_independent_mistakes_are_reported(problems: Problems) -> None:
    found = problems(
        f"version 1.0; {HEADER}\n"
        "fragment f(x: tensor<scalar>) -> (y: integer) { y = x; }\n"
        "graph g(i) -> (o) {\n i = external(shape = [1]);\n a = rellu(i);\n b = relu(a);\n"
        " c = softmax(i, axes = 1);\n o = relu(c, d);\n}"
    )
    assert [each.line for each in found] == [2, 2, 5, 7, 8, 8]


def test_a_graph_parameter_is_the_result_of_external(problems: Problems) -> None:
    (found,) = problems("version 1.0; graph g(i) -> (o) { i = copy(1.0); o = relu(i); }")
    assert "'i' is not the result of 'external'" in found.message
