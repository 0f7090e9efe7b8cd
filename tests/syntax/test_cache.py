"""Trees from the cache equal those from the parser, spans and all; damage is never noticed."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import pytest

from tvm_nnef.diagnostics import NnefError, Source
from tvm_nnef.support import user_cache
from tvm_nnef.syntax import cache, nodes, parse, parse_cached, parser
from tvm_nnef.syntax.build_tree import MAXIMUM_DEPTH

TEXT = """import math;
public operator scale {
    @attrib { factor: real = 1.5; name: str = "f = {factor}"; }
    @input { x: real[s..(d)]; }
    @output { y: real[s..]; }
    @lower { y[i..] = factor * x[i..], i < s; }
}
"""


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(user_cache, "folder", lambda: tmp_path / "cache")
    return tmp_path / "cache"


def kept_tree(folder: Path) -> Path:
    (file,) = folder.glob("tree-*")
    return file


def spans(node: nodes.Node) -> list[tuple[str, int, int]]:
    found = [(type(node).__name__, node.span.start, node.span.end)]
    for name in node.__match_args__:
        value = getattr(node, name)
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, nodes.Node):
                found += spans(item)
    return found


def test_a_kept_tree_equals_the_parsed_one_with_its_spans(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed = parse(TEXT, "a.sknd")
    assert parse_cached(TEXT, "a.sknd") == parsed
    monkeypatch.setattr(parser, "parse", lambda *_: pytest.fail("the text was parsed again"))
    kept = parse_cached(TEXT, "b.sknd")
    assert kept == parsed
    assert spans(kept) == spans(parsed)
    name = kept.definitions[0].name
    assert (name.span.source.path, name.span.text) == ("b.sknd", "scale")


def test_the_deepest_tree_can_be_kept(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    depth = MAXIMUM_DEPTH - 10
    text = f"operator f {{ @using {{ a = {'[' * depth}{']' * depth}; }} }}"
    parsed = parse_cached(text)
    assert kept_tree(cache_folder).stat().st_size > depth
    monkeypatch.setattr(parser, "parse", lambda *_: pytest.fail("the text was parsed again"))
    assert parse_cached(text) == parsed


def test_the_source_is_not_kept(cache_folder: Path) -> None:
    parse_cached(TEXT + "# a comment that is in no tree\n")
    assert b"comment" not in kept_tree(cache_folder).read_bytes()


@pytest.mark.parametrize("change", ["cut", "empty", "noise", "another object"])
def test_damaged_trees_are_made_anew(cache_folder: Path, change: str) -> None:
    expected = parse_cached(TEXT)
    file = kept_tree(cache_folder)
    whole = file.read_bytes()
    damage = {
        "cut": whole[: len(whole) // 2],
        "empty": b"",
        "noise": b"\xff" * 100,
        "another object": pickle.dumps(42),
    }
    file.write_bytes(damage[change])
    assert parse_cached(TEXT) == expected
    assert file.read_bytes() == whole


def test_a_tree_that_is_not_a_tree_runs_nothing(cache_folder: Path, tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, tuple[Path]]:
            return Path.touch, (tmp_path / "ran",)

    assert cache.decode(pickle.dumps(Trap()), Source("p", "")) is None
    assert not (tmp_path / "ran").exists()


def test_errors_are_not_kept(cache_folder: Path) -> None:
    for _ in range(2):
        with pytest.raises(NnefError):
            parse_cached("operator {")
    assert not list(cache_folder.glob("tree-*"))


def test_a_folder_that_cannot_be_written_is_done_without(cache_folder: Path) -> None:
    cache_folder.write_text("a file where the folder should be")
    assert parse_cached(TEXT) == parse(TEXT)


def test_nothing_half_written_stays(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(source: object, target: object) -> None:
        raise OSError("no space")

    monkeypatch.setattr(Path, "replace", fail)
    assert parse_cached(TEXT) == parse(TEXT)
    assert list(cache_folder.iterdir()) == []


@pytest.mark.parametrize(
    ("system", "variables", "expected"),
    [
        ("linux", {}, "/home/me/.cache/tvm_nnef"),
        ("linux", {"XDG_CACHE_HOME": "/x"}, "/x/tvm_nnef"),
        ("linux", {"XDG_CACHE_HOME": "x"}, "/home/me/.cache/tvm_nnef"),
        ("darwin", {}, "/home/me/Library/Caches/tvm_nnef"),
        ("win32", {}, "/home/me/AppData/Local/tvm_nnef/Cache"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/tvm_nnef/Cache"),
    ],
)
def test_the_cache_folder_is_where_the_system_keeps_such(
    system: str, variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # The folder of the other tests.
    monkeypatch.setattr(sys, "platform", system)
    for name, value in {"HOME": "/home/me", "XDG_CACHE_HOME": "", "LOCALAPPDATA": ""}.items():
        monkeypatch.setenv(name, variables.get(name, value))
    assert user_cache.folder() == Path(expected)


def test_without_a_home_folder_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setattr(Path, "home", absent)
    user_cache.write("name", b"data")
    assert (user_cache.folder(), user_cache.read("name")) == (None, None)
