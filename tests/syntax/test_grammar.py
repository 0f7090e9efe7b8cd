"""The grammar hides no conflict, and its tables survive whatever happens to their cache."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from tvm_nnef.diagnostics import NnefError
from tvm_nnef.semantics import types
from tvm_nnef.support import user_cache
from tvm_nnef.syntax import expressions, grammar, nodes, parse, statements
from tvm_nnef.syntax.spelling import BUILTIN_FUNCTIONS


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dialect", ["draft", "tools"])
def test_the_grammar_is_lalr_without_any_conflict(dialect: str) -> None:
    pytest.importorskip("interegular", reason="lark's strict mode needs it")
    grammar.build(dialect, strict=True)


def test_an_unknown_dialect_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(NnefError, match=r"'klingon'[^']*'draft' or 'tools'"):
        parse("", dialect="klingon")


@pytest.fixture
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(user_cache, "folder", lambda: tmp_path / "cache")
    grammar.load.cache_clear()
    return tmp_path / "cache"


@pytest.mark.slow
def test_tables_are_kept_and_found_again(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parse("operator f { }")
    assert [file.name.split("-")[0] for file in cache_folder.iterdir()] == ["tables"]
    grammar.load.cache_clear()
    monkeypatch.setattr(grammar, "build", lambda dialect: pytest.fail("the tables were made again"))
    assert parse("operator f { }").definitions[0].name.name == "f"


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with whole tables, which take seconds to make."""
    folder = tmp_path_factory.mktemp("tables")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(user_cache, "folder", lambda: folder)
        grammar.load.cache_clear()
        grammar.load("draft")
    (file,) = folder.iterdir()
    return file


@pytest.mark.sampled(4)
@pytest.mark.parametrize("damage", [b"", b"\x80\x05", b"no pickle", b"\x80\x05}q\x00."])
def test_damaged_tables_are_made_anew(tables: Path, cache_folder: Path, damage: bytes) -> None:
    whole = tables.read_bytes()
    cache_folder.mkdir()
    file = cache_folder / tables.name
    file.write_bytes(damage or whole[: len(whole) // 2])
    grammar.load.cache_clear()
    assert parse("operator f { }").definitions[0].name.name == "f"
    assert len(file.read_bytes()) > len(whole) // 2 + 1


@pytest.mark.slow
def test_a_cache_folder_that_cannot_be_made_is_done_without(cache_folder: Path) -> None:
    cache_folder.write_text("a file where the folder should be")
    assert parse("operator f { }").definitions[0].name.name == "f"
    assert cache_folder.read_text() == "a file where the folder should be"


def test_the_nodes_have_one_public_module() -> None:
    names = set(nodes.__all__)
    for module in (expressions, statements):
        own = {name for name, value in vars(module).items() if is_node(value, module.__name__)}
        assert own
        assert own <= names
    assert pickle.loads(pickle.dumps(nodes.Identifier)) is nodes.Identifier


def is_node(value: object, module: str) -> bool:
    if not isinstance(value, type) or not issubclass(value, nodes.Node):
        return False
    return value.__module__ == module


def test_the_dialects_agree_with_semantics_on_what_is_built_in() -> None:
    assert types.BUILTINS.keys() == BUILTIN_FUNCTIONS


def test_the_nodes_can_be_imported_without_lark() -> None:
    script = "import sys, tvm_nnef.syntax, tvm_nnef.syntax.nodes; sys.exit('lark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
