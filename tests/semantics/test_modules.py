"""Modules, imports and the resolution of names (2.15); diagnostics of a whole program."""

from __future__ import annotations

import pytest

from tvm_nnef.diagnostics import NnefError, Source, error
from tvm_nnef.semantics import check
from tvm_nnef.semantics.check import check_program
from tvm_nnef.syntax import cache, nodes
from tvm_nnef.syntax.parser import parse

OPERATOR = "operator {name} {{ @input {{ x: real[n]; }} @output {{ y: real[n]; }} {body} }}\n"
GRAPH = "graph G {{ @input {{ x: real[4]; }} @output {{ y: real[4]; }} @compose {{ {body} }} }}\n"


def _operator(name: str, body: str = "@lower { y[i,] = x[i,], i < n; }") -> str:
    return OPERATOR.format(name=name, body=body)


def test_modules_are_loaded_once_main_first_cycles_included(expect_clean) -> None:
    modules = {
        "a": "import b;\n" + _operator("f", "@compose { y = b.g(x); }"),
        "b": "import a, sub.c;\n" + _operator("g", "@compose { y = sub.c.h(x); }"),
        "sub.c": "import a;\n" + _operator("h"),
    }
    program = expect_clean(
        "import a;\n" + GRAPH.format(body="y = a.f(x);"), graph=False, modules=modules
    )
    assert list(program.modules) == ["main", "a", "b", "sub.c"]
    assert program.modules["b"].imports == ("a", "sub.c")
    assert [graph.qualified_name for graph in program.graphs] == ["main.G"]


def test_a_standard_module_is_read_once_in_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    check._standard_tree.cache_clear()
    read: list[str] = []

    def noted(text: str, path: str, dialect: str) -> nodes.Module:
        read.append(path)
        return parse(text, path, dialect)

    monkeypatch.setattr(cache, "parse_cached", noted)
    source = Source("<stdlib>/a.sknd", _operator("f"))
    for _ in range(2):
        main = Source("main.sknd", "import a;\n" + GRAPH.format(body="y = a.f(x);"))
        program, found = check_program(main, lambda parts: source)
        assert program is not None and not found
    assert read == [source.path]


def test_resolve_looks_into_the_own_module_and_its_own_imports(expect_clean) -> None:
    modules = {"a": _operator("f") + _operator("_hidden")}
    text = "import a;\n" + GRAPH.format(body="y = a.f(x);") + _operator("f")
    program = expect_clean(text, graph=False, modules=modules)
    span = program.modules["main"].node.span

    def resolve(module: str, *parts: str) -> str:
        return program.resolve(module, nodes.Path(parts, span=span)).qualified_name

    assert resolve("main", "f") == "main.f"
    assert resolve("main", "a", "f") == "a.f"
    assert resolve("a", "_hidden") == "a._hidden"
    for module, parts, message in [
        ("main", ("a", "_hidden"), "private to module 'a'"),
        ("main", ("b", "f"), "module 'b' is not imported"),
        ("a", ("main", "f"), "module 'main' is not imported"),
        ("main", ("a", "ff"), "has no operator 'ff'"),
        ("a", ("g",), "unknown operator 'g'"),
    ]:
        with pytest.raises(NnefError, match=message):
            resolve(module, *parts)


INVALID = [
    ("import «math2»;\n" + GRAPH.format(body="y = x;"), "there is no module 'math2'", "'math'"),
    ("import «zzz.q»;\n" + GRAPH.format(body="y = x;"), "no module 'zzz.q'", "zzz/q.sknd"),
    ("import «main»;\n" + GRAPH.format(body="y = x;"), "main module cannot be imported", None),
    (GRAPH.format(body="y = «a.f»(x);"), "module 'a' is not imported", "import a;"),
    ("import a;\n" + GRAPH.format(body="y = «b.g»(x);"), "module 'b' is not imported", None),
    ("import a;\n" + GRAPH.format(body="y = «a.ff»(x);"), "has no operator 'ff'", "'f'"),
    ("import a;\n" + GRAPH.format(body="y = «f»(x);"), "unknown operator 'f'", "'a.f'"),
    ("import a;\n" + GRAPH.format(body="y = «a._p»(x);"), "is private to module 'a'", "_"),
    (_operator("«f»"), "the main module has no graph", "add a 'graph'"),
]


@pytest.mark.parametrize(("text", "message", "hint"), INVALID)
def test_wrong_imports_and_names(text: str, message: str, hint: str | None, expect_error) -> None:
    modules = {
        "a": "import b;\n" + _operator("f", "@compose { y = b.g(x); }") + _operator("_p"),
        "b": _operator("g"),
    }
    expect_error(text, message, hint=hint, graph=False, modules=modules)


def test_an_empty_main_module_is_reported(check) -> None:
    program, found = check("")
    assert program is None
    assert [diagnostic.message for diagnostic in found] == ["the main module has no graph"]


def test_a_module_that_cannot_be_read_is_reported_as_the_loader_says() -> None:
    def load(parts: tuple[str, ...]) -> Source | None:
        raise error("is not text in UTF-8", file=f"{parts[0]}.sknd")

    main = Source("main.sknd", "import a;\n" + GRAPH.format(body="y = x;"))
    program, found = check_program(main, load, parse=parse)
    assert program is None
    assert [(d.file, d.message) for d in found] == [("a.sknd", "is not text in UTF-8")]


def test_calls_into_a_missing_module_are_not_reported_again(check) -> None:
    _, found = check("import zzz;\n" + GRAPH.format(body="y = zzz.f(x);"))
    assert [diagnostic.message for diagnostic in found] == ["there is no module 'zzz'"]


def test_graphs_in_imported_modules_and_syntax_errors_have_their_file(check) -> None:
    modules = {"a": GRAPH.format(body="y = x;"), "b": "operator f { @input { x real; } }"}
    program, found = check("import a, b;\n" + GRAPH.format(body="y = q;"), modules)
    assert program is None
    assert found[0].message == "'q' is not defined"
    assert {diagnostic.path for diagnostic in found} == {"main.sknd", "a.sknd", "b.sknd"}
    assert any("graph 'G' is defined in the imported module 'a'" in d.message for d in found)


@pytest.mark.slow
def test_all_independent_mistakes_are_reported_at_once_in_order(check) -> None:
    text = """import nn, maths;
graph G {
    @attrib { n: int = 1.5; }
    @input { x: real[1, 3, 8, 8]; }
    @output { y: real[1]; z: real[1]; }
    @variable { w: real[m, 3]; }
    @compose {
        a = nn.relu(q);
        b = nn.conv{strid=2}(x, w);
        c = nn.rellu(b);
        x = nn.relu(c);
        y = c;
    }
}
operator op {
    @attrib { k: int; }
    @input { x: real[s.., t..]; }
    @output { y: real[k]; }
    @assert { k: 'k'; }
    @lower { y[i,] = x[i], i < k; }
}
"""
    program, found = check(text)
    assert program is None
    messages = [
        (1, "no module 'maths'"),
        (3, "is of type real"),
        (5, "output 'z' is not assigned"),
        (6, "'m' is not defined"),
        (8, "'q' is not defined"),
        (9, "no attribute 'strid'"),
        (10, "no operator 'rellu'"),
        (11, "input 'x' cannot be assigned"),
        (17, "cannot be split"),
        (19, "must be of type bool"),
        (20, "as if it was a pack"),
    ]
    assert [(d.line, part in d.message) for d, (_, part) in zip(found, messages, strict=True)] == [
        (line, True) for line, _ in messages
    ]


def test_the_standard_modules_are_clean(check) -> None:
    names = ("layout", "math", "linalg", "nn")
    text = f"import {', '.join(names)};\n" + GRAPH.format(body="y = x;")
    program, found = check(text, check_stdlib=True)
    assert [diagnostic.render() for diagnostic in found] == []
    assert program is not None
    assert set(names) <= set(program.modules)
    for name in names:
        assert len(program.modules[name].definitions) > 0


def test_standard_modules_are_trusted_unless_asked_for(check) -> None:
    """A mistake in a module that counts as standard shows only with ``check_stdlib``."""
    broken = Source("<stdlib>/nn.sknd", _operator("f", "@lower { y[i,] = q, i < n; }"))
    main = Source("main.sknd", "import nn;\n" + GRAPH.format(body="y = nn.f(x);"))
    for check_stdlib, count in ((False, 0), (True, 1)):
        _, found = check_program(main, lambda _: broken, check_stdlib=check_stdlib, parse=parse)
        assert len(found) == count
