"""How public objects show themselves, the classes of errors, and the types of options."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.cli import conversion as conversion_options
from tvm_nnef.model import options
from tvm_nnef.support.html_table import MAX_ROWS, html_table

DIGITS = Path(__file__).resolve().parents[1] / "docs" / "examples" / "digits"


@pytest.fixture(scope="module")
def model() -> tvm_nnef.Model:
    return tvm_nnef.load_model(DIGITS)


def test_a_model_describes_its_inputs_and_outputs(model: tvm_nnef.Model) -> None:
    assert model.inputs == {"image": "real[batch, 1, 8, 8]"}
    assert model.outputs == {"probabilities": "real[batch, 10]"}
    assert model.labels == tuple("0123456789")
    assert model.dtypes == {}


def test_a_type_on_several_lines_with_a_default_is_one_line() -> None:
    text = (
        "graph G { @input { x: real[\n2,\n3]; } @output { y: real[2, 3]; } @compose { y = x; } }\n"
    )
    assert tvm_nnef.load_model(text).inputs == {"x": "real[ 2, 3]"}


def test_reprs_are_short(model: tvm_nnef.Model) -> None:
    graph = tvm_nnef.compose(model)
    report = tvm_nnef.compare(model, progress=False)
    assert repr(model) == f"<Model '{DIGITS}': graph Digits, 8 variables>"
    assert repr(graph) == (
        "<Graph main.Digits(image: float32[1, 1, 8, 8]) -> "
        "(probabilities: float32[1, 10]): 11 operations, 8 variables>"
    )
    assert repr(model.variables).startswith("<8 variables: main.Digits.bias1, ")
    assert repr(report).startswith("<Report: mapped and reference agree")
    for each in (model, graph, report):
        assert len(repr(each)) < 300


def rows(shown: Any) -> list[list[str]]:
    """The cells of the table that a notebook shows, which is well-formed."""
    table = ElementTree.fromstring(shown._repr_html_())
    return [["".join(cell.itertext()) for cell in row] for row in table.iter("tr")]


@pytest.mark.slow
def test_notebooks_show_tables(model: tvm_nnef.Model) -> None:
    assert rows(model)[1:] == [
        ["input", "image", "real[batch, 1, 8, 8]"],
        ["output", "probabilities", "real[batch, 10]"],
    ]
    graph = rows(tvm_nnef.compose(model))
    assert graph[1] == ["conv1", "nn.conv", "float32[1, 16, 8, 8]", "160", "9,216"]
    weights = sum(np.size(array) for array in model.variables.values())
    assert graph[-1] == ["total", "", "", f"{weights:,}", "91,776"]
    report = rows(tvm_nnef.compare(model, progress=False))
    assert [row[0] for row in report[1:]] == ["✓"] * (len(report) - 1)
    assert report[1][1:3] == ["main.Digits.conv1", "nn.conv"]


def test_a_report_marks_what_differs(model: tvm_nnef.Model) -> None:
    report = tvm_nnef.compare(model, rtol=0, atol=0, progress=False)
    assert not report.agrees
    table = ElementTree.fromstring(report._repr_html_())
    marked = [row for row in table.iter("tr") if "background" in row.get("style", "")]
    assert ["".join(row[0].itertext()) for row in marked] == ["✗"]


def test_tables_escape_texts_and_are_cut() -> None:
    shown = html_table("a < b", ["<script>"], [["&"]] * (MAX_ROWS + 3), numbers=(0,))
    table = ElementTree.fromstring(shown)
    assert "<script>" not in shown
    assert "".join(list(table.iter("tr"))[-1].itertext()) == "3 more"


ERRORS: dict[str, tuple[type[tvm_nnef.NnefError], Callable[[], object]]] = {
    "text": (tvm_nnef.ModelError, lambda: tvm_nnef.load_model("graph G {\n")),
    "file": (tvm_nnef.ModelError, lambda: tvm_nnef.compose("no/such/model")),
    "attribute": (tvm_nnef.ModelError, lambda: tvm_nnef.compose(DIGITS, attributes={"b": 1})),
    "conversion": (tvm_nnef.ModelError, lambda: tvm_nnef.convert(b"no model")),
    "target": (tvm_nnef.TargetError, lambda: tvm_nnef.build(DIGITS, "cdua", progress=False)),
    "CPU": (tvm_nnef.TargetError, lambda: tvm_nnef.build(DIGITS, "llvm -mcpu=zen9")),
    "input": (tvm_nnef.InputError, lambda: tvm_nnef.evaluate(DIGITS, np.zeros(3))),
    "input as ValueError": (tvm_nnef.InputError, lambda: tvm_nnef.evaluate(DIGITS)),
    "unsupported": (
        tvm_nnef.UnsupportedError,
        lambda: tvm_nnef.build(DIGITS, cuda_graphs=True, progress=False),
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors_have_a_class(case: str) -> None:
    kind, call = ERRORS[case]
    with pytest.raises(tvm_nnef.NnefError) as caught:
        call()
    assert type(caught.value) is kind
    assert isinstance(caught.value, ValueError) == (kind is tvm_nnef.InputError)
    copied = pickle.loads(pickle.dumps(caught.value))
    assert (type(copied), str(copied)) == (kind, str(caught.value))


TYPED = {
    tvm_nnef.compose: options.LoadOptions,
    tvm_nnef.evaluate: options.ComposeOptions,
    tvm_nnef.from_nnef: options.ComposeOptions,
    tvm_nnef.build: options.LowerOptions,
    tvm_nnef.tune: options.LowerOptions,
    tvm_nnef.compare: options.ComposeOptions,
    tvm_nnef.load_model: options.ConvertOptions,
}


@pytest.mark.parametrize("call", TYPED, ids=lambda call: call.__name__)
def test_options_are_typed(call: Callable[..., Any]) -> None:
    (further,) = [
        each
        for each in inspect.signature(call).parameters.values()
        if each.kind is inspect.Parameter.VAR_KEYWORD
    ]
    assert further.annotation == f"Unpack[{TYPED[call].__name__}]"


def test_the_options_of_every_format_are_typed() -> None:
    from tvm_nnef.formats.registry import FORMATS

    typed = options.ConvertOptions.__annotations__
    for each in FORMATS:
        with suppress(tvm_nnef.NnefError):  # The package of the format is not installed.
            assert each.options <= set(typed), each.name


def test_every_typed_option_is_one_of_a_format() -> None:
    pytest.importorskip("onnx")
    from tvm_nnef.formats.registry import FORMATS

    found = set()
    for each in FORMATS:
        with suppress(tvm_nnef.NnefError):
            found |= each.options
    assert found == set(options.ConvertOptions.__annotations__)


def test_pytorch_models_take_the_options_of_onnx_models() -> None:
    pytest.importorskip("onnx")
    from tvm_nnef.converters.onnx import convert as onnx
    from tvm_nnef.converters.onnx.torch import convert as torch

    def named(call: Callable[..., Any]) -> dict[str, inspect.Parameter]:
        every = inspect.signature(call).parameters.values()
        return {each.name: each for each in every if each.kind is each.KEYWORD_ONLY}

    ours, theirs = named(torch), named(onnx)
    theirs.pop("replaceable")  # A program of PyTorch has no initializers that are inputs.
    assert {name: ours.pop(name) for name in theirs} == theirs
    assert set(ours) == {"example_inputs", "dynamic_shapes", "output_names"}


def test_the_options_of_the_command_line_are_those_of_conversions() -> None:
    objects = {"example_inputs", "dynamic_shapes", "output_names"}
    given = {*objects, "converters", "outline", "input_shapes"}
    flags = {each.argument for each in conversion_options.OPTIONS}
    assert flags == set(options.ConvertOptions.__annotations__) - given


def test_the_version_is_that_of_the_package() -> None:
    assert tvm_nnef.__version__ == "unknown" or tvm_nnef.__version__[0].isdigit()
    assert "__version__" in dir(tvm_nnef)
