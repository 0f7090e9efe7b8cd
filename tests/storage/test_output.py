"""Output files: whole or not at all, devices and pipes written to, links followed."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tvm_nnef.diagnostics import NnefError
from tvm_nnef.storage.output import check_output, check_outputs, replacing, write_file


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_replaced_and_keeps_its_permissions(tmp_path: Path) -> None:
    file = tmp_path / "x"
    write_file(file, b"old")
    file.chmod(0o604)
    write_file(file, [b"n", memoryview(b"ew")])
    assert file.read_bytes() == b"new"
    assert file.stat().st_mode & 0o777 == 0o604
    assert names(tmp_path) == ["x"]


def test_new_files_have_the_permissions_of_the_umask(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        write_file(tmp_path / "x", b"")
    finally:
        os.umask(mask)
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("failure", [KeyboardInterrupt, OSError(28, "No space left"), ValueError])
def test_a_failure_leaves_what_was_there(failure: BaseException, tmp_path: Path) -> None:
    write_file(tmp_path / "x", b"old")
    with pytest.raises((KeyboardInterrupt, NnefError, ValueError)):  # noqa: SIM117
        with replacing(tmp_path / "x") as draft:
            draft.write_bytes(b"half")
            raise failure
    assert names(tmp_path) == ["x"] and (tmp_path / "x").read_bytes() == b"old"


def test_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "dangling").symlink_to("later")
    for name, target in (("link", "real"), ("dangling", "later")):
        write_file(tmp_path / name, b"new")
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / target).read_bytes() == b"new"


def test_devices_are_written_to(devices: Path) -> None:
    write_file(devices / "null", b"gone")
    with pytest.raises(NnefError, match="No space left on device"):
        write_file(devices / "full", b"x" * 100_000)
    for name in ("null", "full"):
        assert stat.S_ISCHR((devices / name).stat().st_mode)


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    write_file(tmp_path / "pipe", b"content")
    reader.join()
    assert got == [b"content"] and stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_a_minus_is_standard_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_file("-", b"\x00\xff")
    assert capfdbinary.readouterr().out == b"\x00\xff"
    assert names(tmp_path) == []


REFUSED = {
    "": "name of an output file is empty",
    ".": "is a folder",
    "/": "is a folder",
    "folder": "'folder' is a folder",
    "new/": "is a folder",
    "absent/x": "there is no folder",
    "file/x": "Not a directory",
    "file/sub/x": "Not a directory",
    "a\0b": "not a valid file name",
    "\ud800": "not a valid file name",
    "x" * 300: "File name too long",
    "loop": "Too many levels of symbolic links",
    "socket": "it is a socket",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_written_is_refused_before_the_work(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import socket

    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("file").write_bytes(b"old")
    Path("loop").symlink_to("loop")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("socket")
        before = names(tmp_path)
        for action in (lambda: check_output(name), lambda: write_file(name, b"")):
            with pytest.raises(NnefError, match=REFUSED[name]) as caught:
                action()
            assert caught.value.diagnostics[0].hint
    assert names(tmp_path) == before and Path("file").read_bytes() == b"old"


def test_inputs_are_not_replaced(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    for name in ("main.sknd", "main.G.w.dat", "model.json", "x.npy"):
        (model / name).write_bytes(b"")
    (tmp_path / "alias").symlink_to(model / "main.sknd")
    for file in (model / "main.sknd", model / "main.G.w.dat", model / "model.json"):
        for source in (model, model / "main.sknd"):
            with pytest.raises(NnefError, match="input of the same command"):
                check_output(file, [source])
    with pytest.raises(NnefError, match="input of the same command"):
        check_output(tmp_path / "alias", [model])
    with pytest.raises(NnefError, match="input of the same command"):
        check_output(model / "x.npy", [model, model / "x.npy"])
    check_output(model / "x.npy", [model, "text\n", "a\0b"])
    check_output(model / "new.npy", [model])


def test_two_outputs_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("x")
    check_outputs([tmp_path / "x", tmp_path / "y", "/dev/null", "/dev/null", "-"])
    with pytest.raises(NnefError, match="two outputs have this name"):
        check_outputs([tmp_path / "x", tmp_path / "link"])


def test_what_a_killed_process_leaves_is_removed_by_the_next_write(tmp_path: Path) -> None:
    program = (
        "import os, sys\n"
        "from tvm_nnef.storage.output import replacing\n"
        "with replacing(sys.argv[1]) as draft:\n"
        "    draft.write_bytes(b'half')\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "x")]
    assert subprocess.run(command, check=False).returncode == -9
    assert len(names(tmp_path)) == 1
    with replacing(tmp_path / "y") as draft:
        draft.write_bytes(b"whole")
        write_file(tmp_path / "x", b"whole")
        assert draft.exists()
    assert names(tmp_path) == ["x", "y"]
