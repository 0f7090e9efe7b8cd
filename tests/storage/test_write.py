"""Writing a model: whole or not at all, and the same bytes every time."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvm_nnef.diagnostics import NnefError
from tvm_nnef.storage.container import open_container
from tvm_nnef.storage.manifest import MANIFEST
from tvm_nnef.storage.write import write_container

FILES = {"z.sknd": b"z", "main.sknd": b"graph G {\n}", "main.G.w.dat": bytes(2000), "a/b.dat": b""}
TARGETS = ["model", "model.tar", "model.tgz", "model.tar.gz", "model.sknd.d"]


def content(path: Path) -> dict[str, bytes]:
    container = open_container(path)
    return {name: container.read(name) for name in container.names()}


def snapshot(path: Path) -> dict[str, bytes]:
    """All that lies below a folder."""
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


def interrupted() -> bytes:
    raise KeyboardInterrupt


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_written_is_read_again_unchanged(target: str, tmp_path: Path) -> None:
    lazy = {name: (lambda data=data: data) for name, data in FILES.items()}
    write_container(tmp_path / target, lazy)
    assert content(tmp_path / target) == FILES
    assert [path.name for path in tmp_path.iterdir()] == [target]


NAME = st.text("abc.:-_é", min_size=1, max_size=120).filter(lambda n: n.strip("."))


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(NAME, st.binary(max_size=2000), max_size=5), st.sampled_from(TARGETS[1:4]))
def test_any_names_and_bytes_survive_in_an_archive(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes], target: str
) -> None:
    path = tmp_path_factory.mktemp("write") / target
    write_container(path, {**files, "main.sknd": b""})
    assert content(path) == {**files, "main.sknd": b""}


@pytest.mark.parametrize("target", ["model.tar", "model.tgz"])
def test_equal_models_give_equal_bytes(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_container(tmp_path / target, FILES)
    first = (tmp_path / target).read_bytes()
    monkeypatch.setattr(time, "time", lambda: 2e9)
    write_container(tmp_path / f"other.{target}", dict(reversed(FILES.items())))
    assert (tmp_path / f"other.{target}").read_bytes() == first
    with tarfile.open(tmp_path / target) as archive:
        names = [(m.name, m.mtime, m.uid, m.uname, m.mode) for m in archive]
    order = ["main.sknd", "a/b.dat", "main.G.w.dat", "z.sknd"]
    assert names == [(name, 0, 0, "", 0o644) for name in order]


@pytest.mark.parametrize("target", ["model", "model.tar", "model.tgz"])
@pytest.mark.parametrize("before", [False, True])
def test_a_failure_leaves_what_was_there_before(target: str, before: bool, tmp_path: Path) -> None:
    if before:
        write_container(tmp_path / target, {"main.sknd": b"old"})
    old = snapshot(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        write_container(tmp_path / target, {**FILES, "zz.dat": interrupted})
    assert snapshot(tmp_path) == old
    assert len(list(tmp_path.iterdir())) == int(before)


@pytest.mark.parametrize("target", ["model", "model.tar", "model.tgz"])
def test_a_target_is_replaced_as_a_whole(target: str, tmp_path: Path) -> None:
    write_container(tmp_path / target, {"main.sknd": b"old", "gone.dat": b"", "model.json": b"{}"})
    write_container(tmp_path / target, FILES)
    assert content(tmp_path / target) == FILES
    assert [path.name for path in tmp_path.iterdir()] == [target]


def test_a_failing_rename_brings_the_old_folder_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_container(tmp_path / "model", {"main.sknd": b"old"})
    rename = Path.rename

    def failing(self: Path, target: Path) -> Path:
        if self.name == "new" and target.name == "model":
            raise OSError(28, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(NnefError, match="cannot be written: No space left"):
        write_container(tmp_path / "model", FILES)
    assert (tmp_path / "model" / "main.sknd").read_bytes() == b"old"


def test_a_link_to_a_folder_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "model").symlink_to("real")
    write_container(tmp_path / "model", FILES)
    assert (tmp_path / "model").is_symlink() and content(tmp_path / "real") == FILES


def test_permissions_follow_the_umask(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        write_container(tmp_path / "model", FILES)
        write_container(tmp_path / "model.tar", FILES)
    finally:
        os.umask(mask)
    modes = [(tmp_path / name).stat().st_mode & 0o777 for name in ("model", "model.tar")]
    assert modes == [0o750, 0o640]


@pytest.mark.parametrize("foreign", ["notes.txt", "sub/thesis.doc", ".git/config"])
def test_a_folder_with_anything_else_in_it_is_left_alone(foreign: str, tmp_path: Path) -> None:
    path = tmp_path / "home" / foreign
    path.parent.mkdir(parents=True)
    path.write_bytes(b"precious")
    with pytest.raises(NnefError, match=f"holds '{foreign}'") as caught:
        write_container(tmp_path / "home", FILES)
    assert caught.value.diagnostics[0].hint
    assert snapshot(tmp_path) == {f"home/{foreign}": b"precious"}
    write_container(tmp_path / "home", FILES, overwrite=True)
    kept = snapshot(tmp_path / "home")
    del kept[MANIFEST]
    assert kept == {**FILES, foreign: b"precious"}
    write_container(tmp_path / "home", {**FILES, foreign: b"new"}, overwrite=True)
    assert (tmp_path / "home" / foreign).read_bytes() == b"new"


UNWRITABLE = {
    # name: (target, files, part of the message)
    "parent folder missing": ("none/model", FILES, "there is no folder"),
    "a file in the way": ("file", FILES, "this is a file"),
    "a folder in the way": ("folder.tar", FILES, "is a folder"),
    "name outside": ("model", {"../x": b""}, "points outside"),
    "absolute name": ("model.tar", {"/x": b""}, "points outside"),
    "same name twice": ("model", {"x": b"", "./x": b""}, "same name"),
    "no name": ("model", {".": b""}, "has none"),
    "file and folder of one name": ("model", {"x": b"", "x/y": b""}, "cannot be written"),
    "name too long": ("x" * 300, FILES, "cannot be written"),
    "name with a zero": ("a\0b", FILES, "not a valid file name"),
    "another kind of archive": ("model.zip", FILES, "cannot be written as '.zip'"),
}


@pytest.mark.parametrize("case", UNWRITABLE)
def test_what_cannot_be_written_is_refused_with_location_and_hint(
    case: str, tmp_path: Path
) -> None:
    target, files, message = UNWRITABLE[case]
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "folder.tar").mkdir()
    with pytest.raises(NnefError) as caught:
        write_container(tmp_path / target, files)
    (diagnostic,) = caught.value.diagnostics
    assert message in diagnostic.message
    shown = str(tmp_path / target).replace("\0", "\\0")
    assert diagnostic.path == shown and diagnostic.hint
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder.tar"]


def test_a_folder_is_replaced_only_if_its_files_are_as_they_were_written(tmp_path: Path) -> None:
    model = tmp_path / "model"
    write_container(model, {**FILES, "gone.dat": b"1"})
    write_container(model, FILES)
    (model / "z.sknd").write_bytes(b"edited")
    with pytest.raises(NnefError, match=r"'z\.sknd' in the folder was changed"):
        write_container(model, FILES)
    assert (model / "z.sknd").read_bytes() == b"edited"
    write_container(model, FILES, overwrite=True)
    assert content(model) == FILES
    (model / "z.sknd").unlink()
    write_container(model, FILES)
    assert content(model) == FILES


def test_a_model_that_another_program_wrote_is_left_alone(tmp_path: Path) -> None:
    other = {"main.sknd": b"other", "main.G.precious.dat": b"1", "model.json": b"{}"}
    (tmp_path / "model").mkdir()
    for name, data in other.items():
        (tmp_path / "model" / name).write_bytes(data)
    with pytest.raises(NnefError, match="which this program did not write"):
        write_container(tmp_path / "model", FILES)
    assert snapshot(tmp_path / "model") == other
    write_container(tmp_path / "model", FILES, overwrite=True)
    assert content(tmp_path / "model") == {**FILES, "main.G.precious.dat": b"1"}


def test_a_damaged_manifest_is_not_a_permission(tmp_path: Path) -> None:
    write_container(tmp_path / "model", FILES)
    for damaged in (b"", b"[]", b'{"sha256": 3}', b"\xff", b"[" * 100_000):
        (tmp_path / "model" / MANIFEST).write_bytes(damaged)
        with pytest.raises(NnefError, match="which this program did not write"):
            write_container(tmp_path / "model", FILES)


def test_links_in_a_folder_are_kept_and_not_followed(tmp_path: Path) -> None:
    write_container(tmp_path / "model", FILES)
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "file").write_bytes(b"precious")
    (tmp_path / "model" / "link").symlink_to(tmp_path / "else")
    with pytest.raises(NnefError, match="holds 'link'"):
        write_container(tmp_path / "model", FILES)
    write_container(tmp_path / "model", FILES, overwrite=True)
    assert (tmp_path / "model" / "link").is_symlink()
    assert (tmp_path / "else" / "file").read_bytes() == b"precious"


def test_an_interrupted_replacement_is_undone_by_the_next_write(tmp_path: Path) -> None:
    program = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from tvm_nnef.storage.write import write_container\n"
        "rename = Path.rename\n"
        "def killed(self, target):\n"
        "    if self.name == 'new' and Path(target).name == 'model': os.kill(os.getpid(), 9)\n"
        "    return rename(self, target)\n"
        "Path.rename = killed\n"
        "write_container(sys.argv[1], {'main.sknd': b'new'})\n"
    )
    model = tmp_path / "model"
    write_container(model, FILES)
    run = subprocess.run([sys.executable, "-c", program, str(model)], check=False)
    assert run.returncode == -9 and not model.exists()
    write_container(tmp_path / "other", FILES)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "other"]
    assert content(model) == FILES
