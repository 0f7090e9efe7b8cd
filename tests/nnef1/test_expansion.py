"""The flat graph: fragments, compile-time expressions, labels, and what has no value."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tvm_nnef.converters.nnef1 import evaluation, expansion
from tvm_nnef.diagnostics import NnefError

Flatten = Callable[..., list[str]]

ATTRIBUTES = "fragment f(x: tensor<scalar>, a: {}) -> (y: tensor<scalar>);"


@pytest.mark.parametrize(
    ("type_", "expression", "expected"),
    [
        ("integer", "2 + 3 * 4 - 1", "13"),
        ("integer", "2 ^ 3 ^ 2", "64"),
        ("integer", "7 / 2", "3"),
        ("integer", "-7 / 2", "-3"),
        ("scalar", "7.0 / 2.0", "3.5"),
        ("scalar", "1.0 / 0.0", "inf"),
        ("scalar", "2.0 ^ -1.0", "0.5"),
        ("scalar", "(-8.0) ^ 0.5", "nan"),
        ("logical", "1 < 2 && !(2.0 >= 3.0)", "true"),
        ("logical", "'a' == 'b' || 1 != 1", "false"),
        ("logical", "[1, 2] in [[1], [1, 2]]", "true"),
        ("logical", "(1, 'a') in [(1, 'b')]", "false"),
        ("integer[]", "[1, 2] + [3] * 2", "[1, 2, 3, 3]"),
        ("integer[]", "[[1, 2], [3]][0]", "[1, 2]"),
        ("integer[]", "[1, 2, 3][0:2]", "[1, 2]"),
        ("integer[]", "[1, 2, 3][:2]", "[1, 2]"),
        ("integer[]", "[1, 2, 3][1:3]", "[2, 3]"),
        ("integer[]", "[1, 2, 3][1:]", "[2, 3]"),
        ("integer[]", "[1, 2, 3][2:2]", "[]"),
        ("integer[]", "[1, 2, 3][2:1]", "[]"),
        ("integer", "(4, 5)[1]", "5"),
        ("string", "'ab' + 'c' * 3", "'abccc'"),
        ("string", "'abc'[1] + 'abc'[1:]", "'bbc'"),
        ("integer", "length_of([1, 2]) + length_of('abc')", "5"),
        ("integer[]", "range_of('abc') + range_of([7])", "[0, 1, 2, 0]"),
        ("integer[]", "[for i in [1, 2, 3] if i != 2 yield i * i]", "[1, 9]"),
        ("integer[]", "[for i in [1, 2], j in [10, 20] yield i + j]", "[11, 22]"),
        ("integer[]", "[for i in range_of([5, 6]) yield [5, 6][i] + i]", "[5, 7]"),
        (
            "integer[][]",
            "[for i in [1, 2] yield [for j in [3, 4] yield i * j]]",
            "[[3, 4], [6, 8]]",
        ),
        ("scalar[]", "[scalar(true), scalar('2.5'), scalar(3)]", "[1.0, 2.5, 3.0]"),
        (
            "integer[]",
            "[integer(true), integer('-7'), integer(2.7), integer(-2.7)]",
            "[1, -7, 2, -2]",
        ),
        ("logical[]", "[logical(0), logical(0.5), logical('')]", "[false, true, false]"),
        ("string", "string(1) + string(2.5) + string(true) + string('x')", "'12.5truex'"),
        ("integer", "1 if false else [][0] if false else 3", "3"),
        ("integer[]", "shape_of(1.0)", "[]"),
        ("integer[]", "shape_of(x)", "[2, 3]"),
    ],
)
def test_compile_time_expressions(
    type_: str, expression: str, expected: str, flatten: Flatten
) -> None:
    expression = expression.replace("[][0]", "[5][7]")
    lines = flatten(f"y = f(x, a = {expression});", ATTRIBUTES.format(type_), shapes={"x": (2, 3)})
    assert lines == [f"y = f(x, a = {expected})"]


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("[1, 2][2]", "the subscript 2 of an array with 2 items"),
        ("[1, 2][-1]", "the subscript -1"),
        ("[1, 2][1:3][0]", "the range 1:3"),
        ("length_of([1] * -1)", "-1 copies"),
        ("1 / 0", "divided by zero"),
        ("2 ^ -1", "not an integer"),
        ("2 ^ 63", "beyond 63 bits"),
        ("10 ^ 1000000000", "beyond 63 bits"),
        ("9223372036854775807 + 1", "beyond 63 bits"),
        ("integer('2.5')", "'2.5' cannot be read as integer"),
        ("integer(1.0 / 0.0)", "inf is not an integer"),
        ("[for i in [1], j in [1, 2] yield i][0]", "different lengths: 1, 2"),
        ("shape_of(relu(x))[0]", "is not known"),
    ],
)
def test_expressions_without_a_value(expression: str, message: str, flatten: Flatten) -> None:
    with pytest.raises(NnefError) as caught:
        flatten(f"y = f(x, a = {expression});", ATTRIBUTES.format("integer"))
    (found,) = caught.value.diagnostics
    assert message in found.message
    assert found.hint
    assert found.span is not None


def test_operators_on_tensors_are_operations(flatten: Flatten) -> None:
    assert flatten("y = -x + 2.0 * x ^ x;") == [
        "y/neg = neg(x)",
        "y/pow = pow(x, x)",
        "y/mul = mul(x = 2.0, y/pow)",
        "y = add(y/neg, y/mul)",
    ]


def test_a_second_name_of_a_tensor_is_a_copy(flatten: Flatten) -> None:
    assert flatten("y = x;") == ["y = copy<scalar>(x)"]
    assert flatten("b = x < 1.0; y = +b;") == [
        "b = lt(x, y = 1.0)",
        "y = copy<logical>(b)",
    ]


def test_a_constant_result_of_a_fragment_becomes_a_tensor(flatten: Flatten) -> None:
    fragment = "fragment f(x: tensor<scalar>) -> (y: tensor<scalar>) { y = 2.0 * 3.0; }"
    assert flatten("y = f(x);", fragment) == ["y = constant<scalar>(shape = [], value = [6.0])"]


def test_generic_fragments(flatten: Flatten) -> None:
    fragments = """
    fragment a<?>(x: tensor<?>, k: ?) -> (y: tensor<?>) { y = b(x); }
    fragment b<?>(x: tensor<?>) -> (y: tensor<?>) { y = c<?>(x); }
    fragment c<? = scalar>(x: tensor<>) -> (y: tensor<?>) { y = cast<?>(x); }
    """
    assert flatten("i = cast<integer>(x); j = a(i, k = 1); y = c(j);", fragments) == [
        "i = cast<integer>(x)",
        "j = cast<integer>(i)",
        "y = cast<scalar>(j)",
    ]


def test_arrays_and_tuples_of_tensors(flatten: Flatten) -> None:
    fragments = """
    fragment pairs(x: tensor<scalar>[], y: (tensor<scalar>, tensor<scalar>))
    -> (z: tensor<scalar>[], w: tensor<scalar>)
    {
        a, b = y;
        z = [for i in range_of(x) yield x[i] + a];
        w = y[1] * b;
    }
    """
    assert flatten("[p, q], y = pairs([x, 1.0], (x, 2.0));", fragments) == [
        "p = add(x, x)",
        "q = add(x = 1.0, x)",
        "y = constant<scalar>(shape = [], value = [4.0])",
    ]


def test_locals_are_labelled_after_the_result(flatten: Flatten) -> None:
    fragment = """
    fragment f(x: tensor<scalar>) -> (y: tensor<scalar>)
    { t = exp(x); t2 = exp(t + 1.0); y = t + t2; }
    """
    assert flatten("u = f(x); y = relu(f(u));", fragment) == [
        "u/t = exp(x)",
        "u/t2/add = add(u/t, y = 1.0)",
        "u/t2 = exp(u/t2/add)",
        "u = add(u/t, u/t2)",
        "y/f/t = exp(u)",
        "y/f/t2/add = add(y/f/t, y = 1.0)",
        "y/f/t2 = exp(y/f/t2/add)",
        "y/f = add(y/f/t, y/f/t2)",
        "y = relu(y/f)",
    ]


def test_the_number_of_items_must_fit(flatten: Flatten) -> None:
    with pytest.raises(NnefError, match="3 items for 2 names"):
        flatten("[a, y] = [x] * 3;")


def test_statements_that_depend_on_a_wrong_one_are_not_reported(flatten: Flatten) -> None:
    with pytest.raises(NnefError) as caught:
        flatten(
            "a = f(x, a = 1/0); b = relu(a); y = relu(b); c = f(x, a = [1][1]);",
            ATTRIBUTES.format("integer"),
        )
    assert len(caught.value.diagnostics) == 2


def test_the_chain_of_fragments_is_shown(flatten: Flatten) -> None:
    fragments = """
    fragment inner(x: tensor<scalar>[], i: integer) -> (y: tensor<scalar>) { y = x[i]; }
    fragment outer(x: tensor<scalar>) -> (y: tensor<scalar>) { y = inner([x], i = 3); }
    """
    with pytest.raises(NnefError) as caught:
        flatten("y = outer(x);", fragments)
    (found,) = caught.value.diagnostics
    assert [each.message for each in found.notes] == [
        "in the expansion of 'inner'",
        "in the expansion of 'outer'",
    ]
    assert found.notes[1].span is not None
    assert found.notes[1].span.text == "outer(x)"


RECURSIVE = (
    "fragment f(x: tensor<scalar>[]) -> (y: tensor<scalar>) "
    "{ y = f(x) if length_of(x) > 0 else 0.0; }"
)


def test_recursion_without_an_end(flatten: Flatten) -> None:
    with pytest.raises(NnefError, match="inside each other more than") as caught:
        flatten("y = f([x]);", RECURSIVE)
    assert len(caught.value.diagnostics[0].notes) <= 6


def test_deep_recursion_with_an_end(flatten: Flatten) -> None:
    fragment = (
        "fragment f(x: tensor<scalar>[]) -> (y: tensor<scalar>) "
        "{ y = x[0] + f(x[1:]) if length_of(x) > 0 else 0.0; }"
    )
    assert len(flatten("y = f([x] * 400);", fragment)) == 400


@pytest.mark.parametrize(
    "expression",
    [
        "length_of([1] * 4000000000)",
        "length_of('a' * 4000000000)",
        "length_of([for i in [0] * 2000 yield [0] * 4000])",
        "length_of([for i in [0] * 3000, j in [0] * 3000 yield [for k in [0] * 3000 yield k]])",
    ],
)
def test_work_is_limited(
    expression: str, flatten: Flatten, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "MAX_WORK", 100_000)
    with pytest.raises(NnefError, match="takes more than"):
        flatten(f"y = f(x, a = {expression});", ATTRIBUTES.format("integer"))


def test_operations_are_limited(flatten: Flatten, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expansion, "MAX_OPERATIONS", 100)
    fragments = "\n".join(
        f"fragment f{n}(x: tensor<scalar>) -> (y: tensor<scalar>) "
        f"{{ y = {f'f{n - 1}(f{n - 1}(x))' if n else 'relu(x)'}; }}"
        for n in range(30)
    )
    with pytest.raises(NnefError, match="more than 100 operations"):
        flatten("y = f29(x);", fragments)
