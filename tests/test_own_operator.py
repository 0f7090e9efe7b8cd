"""An operator in a user's own module behaves like a standard one; the page says how to add one."""

from __future__ import annotations

import functools
import math
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.cli import main
from tvm_nnef.diagnostics import Diagnostic, NnefError
from tvm_nnef.graph import dump
from tvm_nnef.stdlib import library
from tvm_nnef.stdlib.catalogue import Entry, page, standard_entries

pytestmark = pytest.mark.sampled(3)

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "adding-an-operator.md").read_text(encoding="utf-8")
STDLIB = ROOT / "tvm_nnef" / "stdlib"


def listing(file: str) -> str:
    """The listing of the page that begins with the name of a file, without that line."""
    (found,) = re.findall(rf"```\w*\n# {re.escape(file)}\n(.*?)```", PAGE, re.DOTALL)
    return str(found)


@pytest.fixture
def smooth(tmp_path: Path) -> Path:
    """The model of the page, on disk."""
    for file in ("main.sknd", "mine.sknd"):
        (tmp_path / file).write_text(listing(file))
    return tmp_path


X = np.arange(16, dtype=np.float32).reshape(2, 8) ** 2
MEAN = np.stack([X[:, j : j + 3].mean(1) for j in range(6)], 1)


@pytest.mark.parametrize("route", ["reference", "formula", "mapped"])
def test_the_operator_of_the_page_computes_what_it_says(smooth: Path, route: Any) -> None:
    if route == "reference":
        (y,) = tvm_nnef.evaluate(smooth, X)
    else:
        (y,) = tvm_nnef.build(smooth, route=route, progress=False)(X)
    np.testing.assert_allclose(y, MEAN, rtol=1e-5)


def test_the_commands_of_the_page_run(
    smooth: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(smooth)
    commands = re.findall(r"^    tvm-nnef (.*)$", PAGE, re.MULTILINE)
    assert len(commands) == 4
    for command in commands:
        assert main(command.split()) == 0, command
    shown = capsys.readouterr().out
    assert "mine.moving_mean  formula" in shown
    assert "formula and reference agree in all 1 tensors" in shown


@pytest.mark.parametrize("route", ["reference", "formula", "mapped"])
def test_dimensions_may_be_dynamic(smooth: Path, route: Any) -> None:
    text = listing("main.sknd").replace("real[2, 8]", "real[2, n|20]").replace("real[2, 6]", "real")
    (smooth / "main.sknd").write_text(text)
    if route == "reference":
        (y,) = tvm_nnef.evaluate(smooth, X)
    else:
        executable = tvm_nnef.build(smooth, route=route, progress=False)
        (y,) = executable(X)
        assert np.shape(executable(np.ones((2, 20), np.float32))[0]) == (2, 18)
    np.testing.assert_allclose(y, MEAN, rtol=1e-5)


def test_a_module_may_be_in_a_folder_of_the_search_path(smooth: Path, tmp_path: Path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    shutil.move(smooth / "mine.sknd", library)
    (y,) = tvm_nnef.evaluate(smooth, X, search_path=[library])
    np.testing.assert_allclose(y, MEAN, rtol=1e-5)


def test_its_assertion_is_reported_at_the_invocation(
    smooth: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = listing("main.sknd").replace("size=3", "size=9")
    (smooth / "main.sknd").write_text(text)
    assert main(["check", str(smooth)]) == 1
    shown = capsys.readouterr().err
    assert "'size' must be from 1 to 8; size = 9" in shown
    assert "mine.moving_mean{size=9}(x)" in shown
    assert "^^^" in shown
    assert "mine.sknd:" in shown


def test_a_lowering_of_the_users_is_held_against_the_formula(smooth: Path) -> None:
    from tvm import relax

    def doubled(builder: Any, operation: Any, operands: Any) -> Any:
        assert operation.attributes == {"size": 3, "factor": 1.0}
        part = builder.emit(relax.op.strided_slice(operands[0], [1], [0], [6]))
        return relax.op.add(part, part)

    report = tvm_nnef.compare(
        smooth, X, routes=("mapped", "formula"), lowerings={"mine.moving_mean": doubled}
    )
    row = report.first_difference
    assert row is not None
    assert (row.operator, row.label) == ("mine.moving_mean", "y")


@dataclass(frozen=True)
class Twin:
    """An invocation of a standard operator, and of its copy in a module of the user's.

    ``name`` is the operator, ``inputs`` are declarations, ``result`` is the type of ``y``.
    """

    name: str
    inputs: str
    invocation: str
    result: str = "real"

    @property
    def module(self) -> str:
        return self.name.partition(".")[0]

    def text(self, module: str) -> str:
        call = self.invocation.replace(f"{self.module}.", f"{module}.")
        return (
            f"import {module};\ngraph G {{ @input {{ {self.inputs} }}\n"
            f"@output {{ y: {self.result}; }}\n@compose {{ y = {call}; }} }}\n"
        )


VALID = [
    Twin("math.sqr", "x: int[3,2];", "math.sqr(x)", "int"),
    Twin("math.add", "x: real[3,2]; z: real[2];", "math.add(x, z)"),
    Twin("math.sum_reduce", "x: real[3,4,2];", "math.sum_reduce{axes=[-2]}(x)"),
    Twin("nn.linear", "x: real[3,4]; w: real[2,4];", "nn.linear(x, w)"),
    Twin("nn.linear", "x: real[3,4]; w: real[2,4]; b: real[2];", "nn.linear(x, w, b)"),
    Twin("nn.conv", "x: real[1,2,5,4]; w: real[3,2,3,3];", "nn.conv{padding=1,stride=2}(x, w)"),
    Twin("layout.concat", "x: real[3,1]; z: real[3,2];", "layout.concat{axis=-1}([x, z])"),
    Twin("layout.cast", "x: real[3];", "layout.cast<int>(x)", "int"),
    Twin("math.add", "x: real[s|5,2]; z: real[s];", "math.add{rhs_align=0}(x, z)"),
    Twin("nn.linear", "x: real[s|5,4]; w: real[t|3,4];", "nn.linear(x, w)"),
    Twin("nn.conv", "x: real[1,2,s|9]; w: real[3,2,3];", "nn.conv{padding=[1,1]}(x, w)"),
    Twin("layout.concat", "x: real[s|4]..(2);", "layout.concat{axis=0}(x)"),
]
INVALID = [
    Twin("math.sqr", "x: bool[3];", "math.sqr(x)", "bool"),
    Twin("math.add", "x: real[3]; z: int[3];", "math.add(x, z)"),
    Twin("math.add", "x: real[3]; z: real[2];", "math.add(x, z)"),
    Twin("math.sum_reduce", "x: real[3,4];", "math.sum_reduce{axes=[5]}(x)"),
    Twin("math.sum_reduce", "x: real[3,4];", "math.sum_reduce{axis=[0]}(x)"),
    Twin("nn.linear", "x: real[3,4]; w: real[2,5];", "nn.linear(x, w)"),
    Twin("nn.linear", "x: real[3,4]; w: real[2,4];", "nn.linear(x)"),
    Twin("nn.linear", "x: real[3,4,1]; w: real[2,4];", "nn.linear(x, w)"),
    Twin("nn.conv", "x: real[1,2,5]; w: real[3,2,3];", "nn.conv{groups=-1}(x, w)"),
    Twin("nn.linear", "x: real[3,4]; w: real[2,4];", "nn.liner(x, w)"),
]


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A folder with a module ``mine``, a copy of all standard operators that are used above."""
    names = {twin.name for twin in (*VALID, *INVALID)}
    texts = [entry.text for entry in standard_entries() if entry.qualified_name in names]
    helpers = "import layout, math;\n"
    (tmp_path / "mine.sknd").write_text(helpers + "\n\n".join(texts))
    return tmp_path


def as_own(words: str, twin: Twin) -> str:
    """What is said of a standard operator, as it should be said of the copy."""
    return words.replace(f"{twin.module}.", "mine.").replace(f"'{twin.module}'", "'mine'")


def said(found: Diagnostic) -> list[str | None]:
    """The words of a diagnostic, and the texts that it points at."""
    spans = [found.span, *(note.span for note in found.notes)]
    texts = [span.text if span else None for span in spans]
    return [found.message, found.hint, *(note.message for note in found.notes), *texts]


@pytest.mark.slow
@pytest.mark.parametrize("twin", VALID, ids=lambda twin: twin.invocation)
def test_a_copy_of_a_standard_operator_is_no_different(twin: Twin, mine: Path) -> None:
    options: dict[str, Any] = {"search_path": [mine]}
    standard = tvm_nnef.compose(twin.text(twin.module))
    own = tvm_nnef.compose(twin.text("mine"), **options)
    assert dump.text(own, bodies=True) == as_own(dump.text(standard, bodies=True), twin)
    report = tvm_nnef.compare(twin.text("mine"), routes=("formula", "reference"), **options)
    assert report.agrees, str(report)
    assert tvm_nnef.compare(twin.text("mine"), routes=("mapped", "formula"), **options).agrees


COMPOSED = [
    Twin("nn.l2_norm", "x: real[2,8];", "nn.l2_norm{axes=[1]}(x)"),
    Twin("nn.mean_variance_norm", "x: real[1,2,8];", "nn.mean_variance_norm(x)"),
    Twin("nn.rms_pool", "x: real[1,2,8];", "nn.rms_pool{size=[3]}(x)"),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("twin", COMPOSED, ids=lambda twin: twin.name)
def test_a_copy_of_a_composed_operator_is_as_precise(twin: Twin, tmp_path: Path) -> None:
    """The squares of some elements are too large for float16."""
    shutil.copy(STDLIB / "nn.sknd", tmp_path / "mine.sknd")
    shape = [int(number) for number in re.findall(r"\d+", twin.inputs)]
    x = np.linspace(-400, 300, math.prod(shape)).reshape(shape).astype(np.float16)
    types = {"real": "float16"}
    (standard,) = tvm_nnef.evaluate(twin.text("nn"), x, dtypes=types)
    own = twin.text("mine")
    (evaluated,) = tvm_nnef.evaluate(own, x, dtypes=types, search_path=[tmp_path])
    assert np.isfinite(standard).all()
    np.testing.assert_array_equal(evaluated, standard)
    report = tvm_nnef.compare(
        own, x, routes=("mapped", "reference"), dtypes=types, search_path=[tmp_path]
    )
    assert report.agrees, str(report)


@pytest.mark.parametrize("twin", INVALID, ids=lambda twin: twin.invocation + twin.inputs)
def test_mistakes_with_a_copy_are_reported_in_the_same_words(twin: Twin, mine: Path) -> None:
    with pytest.raises(NnefError) as standard:
        tvm_nnef.compose(twin.text(twin.module))
    with pytest.raises(NnefError) as own:
        tvm_nnef.compose(twin.text("mine"), search_path=[mine])
    expected = [
        [None if words is None else as_own(words, twin) for words in said(each)]
        for each in standard.value.diagnostics
    ]
    assert [said(each) for each in own.value.diagnostics] == expected


NESTED = """# The sum along the last axis, `factor` times.
operator scaled_sum {
    @dtype { T: num; }
    @attrib { factor: T = T(2); }
    @input { x: T[s.., n]; }
    @output { y: T[s..]; }
    @assert { n > 1: "there is nothing to add up", n; }
    @lower { y[i..] += factor * x[i.., j], i < s, j < n; }
}
"""
OF_NESTED = """import library.sums;
graph G {
    @input { x: real[2, n|9]; k: int[3, 4]; }
    @output { y: real[2]; z: int[3]; }
    @compose {
        y = library.sums.scaled_sum{factor=0.5}(x);
        z = library.sums.scaled_sum(k);
    }
}
"""


@pytest.fixture
def nested(tmp_path: Path) -> Path:
    """A model whose operator is in a module in a folder, generic, with dynamic dimensions."""
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "sums.sknd").write_text(NESTED)
    (tmp_path / "main.sknd").write_text(OF_NESTED)
    return tmp_path


@pytest.mark.parametrize("int_", ["int32", "int8"])
@pytest.mark.parametrize("route", ["reference", "formula", "mapped"])
def test_a_generic_operator_of_a_module_in_a_folder(nested: Path, route: Any, int_: str) -> None:
    types = {"int": int_}
    k = np.arange(12).reshape(3, 4).astype(int_)
    run: Any = functools.partial(tvm_nnef.evaluate, nested, dtypes=types)
    if route != "reference":
        run = tvm_nnef.build(nested, route=route, dtypes=types, progress=False)
    for n in (2, 5, 9):
        x = np.arange(2 * n, dtype=np.float32).reshape(2, n)
        y, z = run(x, k)
        np.testing.assert_allclose(y, 0.5 * x.sum(1))
        np.testing.assert_array_equal(z, (2 * k.sum(1)).astype(int_))
        assert z.dtype == int_


@pytest.mark.parametrize("route", ["reference", "mapped"])
def test_what_is_known_only_at_run_time_is_asserted_by_the_run(nested: Path, route: Any) -> None:
    run: Any = functools.partial(tvm_nnef.evaluate, nested)
    if route != "reference":
        run = tvm_nnef.build(nested, route=route, progress=False)
    with pytest.raises(NnefError, match="there is nothing to add up"):
        run(np.ones((2, 1), np.float32), np.ones((3, 4), np.int32))


def test_a_type_that_a_module_in_a_folder_does_not_take_is_reported(nested: Path) -> None:
    (nested / "main.sknd").write_text(OF_NESTED.replace("k: int", "k: bool"))
    with pytest.raises(NnefError, match="must be int or real, not bool") as caught:
        tvm_nnef.load_model(nested)
    (found, *_) = caught.value.diagnostics
    assert found.line == 7 and str(found.path).endswith("main.sknd")


def test_a_copy_is_listed_alike(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (mine / "main.sknd").write_text(VALID[3].text("mine"))
    assert main(["ops", "--model", str(mine), "mine.linear"]) == 0
    own = capsys.readouterr().out
    assert main(["ops", "nn.linear"]) == 0
    standard = capsys.readouterr().out
    assert own.splitlines()[0] == "# mine.linear: formula"
    # The copy does not have the comment.
    assert own.splitlines()[1:] == [
        line for line in standard.splitlines()[1:] if not line.startswith("#")
    ]


def test_a_standard_operator_needs_its_text_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files 4 to 9 of the page's list are optional, and nothing registers a module."""
    stdlib = tmp_path / "stdlib"
    shutil.copytree(STDLIB, stdlib)
    (stdlib / "mine.sknd").write_text(listing("mine.sknd"))
    monkeypatch.setattr(library, "_folder", lambda: stdlib)
    (y,) = tvm_nnef.build(listing("main.sknd"), progress=False)(X)
    np.testing.assert_allclose(y, MEAN, rtol=1e-5)
    entries: list[Entry] = standard_entries()
    assert "mine.moving_mean" in [entry.qualified_name for entry in entries]
    assert "### mine.moving_mean" in page(entries)
