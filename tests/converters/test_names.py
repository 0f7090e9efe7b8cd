"""Names of the source stay as they are, unless a model cannot have them."""

from __future__ import annotations

import pytest

from tvm_nnef.converters.common.names import Namer

KEPT = ["x", "x_1", "_x", "x_", "a__b", "image", "nn", "math", "main", "min", "exp", "shape"]


def test_a_legal_name_is_kept() -> None:
    namer = Namer()
    assert [namer.name(each) for each in KEPT] == KEPT


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("input.1", "input_1"),
        ("/conv/Conv_output_0", "conv_Conv_output_0"),
        ("1", "x1"),
        ("_", "x"),
        ("real", "real_2"),
        ("é", "x"),
    ],
)
def test_another_name_becomes_an_identifier(source: str, name: str) -> None:
    assert Namer().name(source) == name


def test_a_name_is_given_once() -> None:
    namer = Namer(["taken"])
    assert [namer.name(each) for each in ("x", "x", "taken")] == ["x", "x_2", "taken_2"]
