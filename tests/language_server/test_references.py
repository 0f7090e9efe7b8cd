"""Where names are used, and which new names are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import tvm_nnef
from tvm_nnef.diagnostics import NnefError, Span
from tvm_nnef.language_server.files import files_of
from tvm_nnef.language_server.modules import Modules, modules_of
from tvm_nnef.language_server.references import references_at, renamable_at, renamed

Cursor = Callable[[str], tuple[Modules, int]]

MODEL = """\
import nn;
# Scaled x.
operator scaled {
    @dtype { T: num; }
    @attrib { by: int = 2; }
    @input { x: T[n, m]; }
    @output { y: T[n, m]; }
    @using { twice: int = 2 * by; }
    @lower {
        f = by + twice, y[i, j] = x[i, j] * T(f), i < n, j < m;
        y[i, j] += `abs`(x[i, j]), i < n, j < m;
    }
}
graph G {
    @attrib { batch: int = 1; }
    @input { x: int[batch, 3]; }
    @output { y: int[batch, 3]; }
    @assert { batch > 0: "batch {batch} is wrong"; }
    @compose {
        one = scaled{by=3}(x);
        two = scaled{by=batch}(one);
        y = if two is two then { abs = scaled(two); yield abs; } else { abs = one; yield abs; };
    }
}
"""
MODEL = MODEL.replace("two is two", "batch > 1")


def marked(at_cursor: Cursor, where: str, text: str = MODEL) -> tuple[Modules, int]:
    """The modules and the offset of the '$' in a part of the text."""
    return at_cursor(text.replace(where.replace("$", ""), where, 1))


def written(spans: list[Span]) -> list[tuple[int, int]]:
    """Lines and columns of spans."""
    return sorted(each.source.position(each.start) for each in spans)


USES = {
    "operator": ("operator sca$led", [(3, 10), (20, 15), (21, 15), (22, 39)]),
    "operator where it is used": ("two = sca$led", [(3, 10), (20, 15), (21, 15), (22, 39)]),
    "attribute": ("{by$=3}", [(5, 15), (8, 31), (10, 13), (20, 22), (21, 22)]),
    "dimension": ("i < $n, j < m;\n        y", [(6, 19), (7, 20), (10, 55), (11, 40)]),
    "index of the first formula": ("y[$i, j] = x", [(10, 27), (10, 37), (10, 51)]),
    "index of the second formula": ("`(x[$i", [(11, 11), (11, 28), (11, 36)]),
    "local value": ("T($f)", [(10, 9), (10, 47)]),
    "type": ("x: $T[", [(4, 14), (6, 17), (7, 18), (10, 45)]),
    "result": ("$two = ", [(21, 9), (22, 46)]),
    "name in a branch": ("yield ab$s; } else", [(22, 33), (22, 58)]),
    "attribute in a text": (
        "{ba$tch}",
        [(15, 15), (16, 21), (17, 22), (18, 15), (18, 34), (21, 25), (22, 16)],
    ),
}
"""Where the cursor is, and lines and columns of all uses."""


@pytest.mark.parametrize("case", USES)
def test_names_are_found_where_they_are_used(case: str, at_cursor: Cursor) -> None:
    where, absected = USES[case]
    modules, offset = marked(at_cursor, where)
    spans = references_at(modules, offset)
    assert written(spans) == absected
    assert len({each.text for each in spans}) == 1
    assert len(references_at(modules, offset, with_declaration=False)) == len(spans) - 1
    assert renamable_at(modules, offset) in spans


@pytest.mark.parametrize("case", USES)
def test_a_renamed_model_is_the_same(case: str, at_cursor: Cursor) -> None:
    modules, offset = marked(at_cursor, USES[case][0])
    text = MODEL
    for each in sorted(renamed(modules, offset, "fresh"), key=lambda span: -span.start):
        text = text[: each.start] + "fresh" + text[each.end :]
    assert written(references_at(*_at(text, "fresh")))
    graph = tvm_nnef.compose(text)
    x = [[1, 2, 3]]
    assert tvm_nnef.evaluate(graph, x)[0].tolist() == tvm_nnef.evaluate(MODEL, x)[0].tolist()


def _at(text: str, word: str) -> tuple[Modules, int]:
    path = "/nowhere/main.sknd"
    return modules_of(files_of(path, {path: text})), text.index(word)


REFUSED = {
    "keyword": ("$two = ", "yield", "'yield' is a word of the language"),
    "constant": ("$two = ", "pi", "'pi' is a word of the language"),
    "no name": ("$two = ", "2nd", "'2nd' is not a name"),
    "empty": ("$two = ", "", "'' is not a name"),
    "other letters": ("$two = ", "größe", "'größe' is not a name"),
    "name of a result": ("$two = ", "one", "'one' is a name already"),
    "name of an input": ("$two = ", "x", "'x' is a name already"),
    "name of another index": ("y[$i, j] = x", "j", "'j' is a name already"),
    "name of a dimension": ("y[$i, j] = x", "m", "'m' is a name already"),
    "dimension like an index": ("i < $n, j < m;\n        y", "j", "'j' is a name already"),
    "name of an operator": ("graph $G", "scaled", "'scaled' is a name already"),
    "module": ("import n$n", "mm", "a module has the name of its file"),
    "function": ("`ab$s`", "log", "there is no name that is declared"),
    "word of a comment": ("# Sca$led", "a", "there is no name that is declared"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_names_that_cannot_be_are_refused(case: str, at_cursor: Cursor) -> None:
    where, name, message = REFUSED[case]
    modules, offset = marked(at_cursor, where)
    with pytest.raises(NnefError, match=message):
        renamed(modules, offset, name)


def test_an_index_may_be_called_as_that_of_another_formula(at_cursor: Cursor) -> None:
    text = MODEL.replace("y[i, j] += `abs`(x[i, j]), i < n", "y[p, j] += `abs`(x[p, j]), p < n")
    modules, offset = marked(at_cursor, "y[$i, j] = x", text)
    assert len(renamed(modules, offset, "p")) == 3


@pytest.mark.parametrize(("name", "where"), [("nn.re$lu", "relu"), ("n$n.relu", "nn")])
def test_names_of_the_standard_library_are_found_and_not_renamed(
    name: str, where: str, at_cursor: Cursor
) -> None:
    text = MODEL.replace("abs = one", f"abs = {name.replace('$', '')}(one)")
    modules, offset = marked(at_cursor, name, text)
    assert len(references_at(modules, offset)) == (2 if where == "relu" else 0)
    with pytest.raises(NnefError, match=r"standard library|the name of its file"):
        renamed(modules, offset, "other")


def test_an_operator_is_renamed_in_all_modules_of_the_model(tmp_path: Path) -> None:
    main, own = tmp_path / "main.sknd", tmp_path / "ops" / "own.sknd"
    own.parent.mkdir()
    own.write_text("operator kept { @input { x: real[]; } @output { y: real[]; } }")
    own.write_text(own.read_text() + "\noperator user { @compose { y = kept(kept(x)); } }")
    text = "import ops.own;\ngraph G { @compose { y = ops.own.kept(ops.own.user(x)); } }"
    modules = modules_of(files_of(str(main), {str(main): text}))
    spans = renamed(modules, text.index("kept"), "fresh")
    assert [each.text for each in spans] == ["kept"] * 4
    assert {each.source.path for each in spans} == {str(main), str(own)}
    with pytest.raises(NnefError, match="'user' is a name already"):
        renamed(modules, text.index("kept"), "user")
    (tmp_path / "model.json").write_text('{"labels": {"kept": 1}}')
    modules = modules_of(files_of(str(main), {str(main): text}))
    with pytest.raises(NnefError, match=r"model\.json names 'kept', too"):
        renamed(modules, text.index("kept"), "fresh")


@pytest.mark.parametrize("where", ["sta$te: real", "y = sta$te", "graph $G"])
def test_what_names_files_of_variables_is_not_renamed(where: str, at_cursor: Cursor) -> None:
    text = "graph G { @variable { state: real[1]; } @output { y: real; } @compose { y = state; } }"
    modules, offset = marked(at_cursor, where, text)
    with pytest.raises(NnefError, match="the files of variables are named by it"):
        renamed(modules, offset, "other")


def test_a_text_with_syntax_errors_is_corrected_first(at_cursor: Cursor) -> None:
    text = MODEL.replace("y = if", "z = one one; y = if")
    modules, offset = marked(at_cursor, "$two = ", text)
    assert len(references_at(modules, offset)) == 2
    with pytest.raises(NnefError, match="unexpected"):
        renamed(modules, offset, "other")
