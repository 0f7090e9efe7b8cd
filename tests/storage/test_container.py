"""Models as named files: every kind is opened by its content, hostile archives are refused."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvm_nnef.diagnostics import Diagnostic, NnefError
from tvm_nnef.storage import archive
from tvm_nnef.storage.container import open_container, open_files
from tvm_nnef.storage.names import variable_file_name

TEXT = b"graph G {\n}\n"
FILES = {"main.sknd": TEXT, "main.G.w.dat": b"weights", "sub/m.sknd": b"# m\n"}


def member(name: str, data: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, data


def tar(*members: tuple[tarfile.TarInfo, bytes], form: int = tarfile.PAX_FORMAT) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form) as written:
        for info, data in members:
            written.addfile(info, io.BytesIO(data))
    return stream.getvalue()


def tar_of(files: dict[str, bytes], lead: str = "", form: int = tarfile.PAX_FORMAT) -> bytes:
    return tar(*(member(lead + name, data) for name, data in files.items()), form=form)


def folder(path: Path, files: dict[str, bytes] = FILES) -> Path:
    for name, data in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)
    return path


def file(data: bytes) -> Callable[[Path], Path]:
    def write(path: Path) -> Path:
        path.write_bytes(data)
        return path

    return write


def fault(model: str | Path) -> Diagnostic:
    with pytest.raises(NnefError) as caught:
        open_container(model)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.hint
    return diagnostic


def pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


KINDS: dict[str, Callable[[Path], Path]] = {
    "folder": folder,
    "tar": file(tar_of(FILES)),
    "tar of GNU": file(tar_of(FILES, form=tarfile.GNU_FORMAT)),
    "tar of old": file(tar_of(FILES, form=tarfile.USTAR_FORMAT)),
    "tgz": file(gzip.compress(tar_of(FILES))),
    "tgz in two gzip members": file(
        gzip.compress(tar_of(FILES)[:700]) + gzip.compress(tar_of(FILES)[700:])
    ),
    "tar from the folder itself": file(
        tar(member("./", type=tarfile.DIRTYPE), *(member(f"./{n}", d) for n, d in FILES.items()))
    ),
    "tar with a leading folder": file(tar_of(FILES, "model/")),
    "tgz with both": file(gzip.compress(tar_of(FILES, "./model/"))),
    "tar with a folder member": file(
        tar(member("m", type=tarfile.DIRTYPE), *(member(f"m/{n}", d) for n, d in FILES.items()))
    ),
}


@pytest.mark.parametrize("name", ["model", "model.tar", "model.tgz", "model.sknd"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_kind_is_found_from_the_content(kind: str, name: str, tmp_path: Path) -> None:
    container = open_container(KINDS[kind](tmp_path / name))
    assert container.main == "main.sknd"
    assert container.names() == tuple(sorted(FILES))
    assert {name: container.read(name) for name in container.names()} == FILES
    assert container.read("main.G.w.dat", 3) == b"wei"
    assert container.size("main.G.w.dat") == 7
    assert container.exists("./sub/m.sknd") and not container.exists("sub")
    assert container.location("main.sknd") == f"{tmp_path}/{name}/main.sknd"


def test_a_name_with_a_brace_is_a_file_where_there_is_one(tmp_path: Path) -> None:
    folder(tmp_path, {"a{b}.sknd": TEXT})
    assert open_container(str(tmp_path / "a{b}.sknd")).main == "a{b}.sknd"


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r", " "])
def test_a_text_with_a_line_break_or_a_brace_is_a_model(line_end: str) -> None:
    container = open_container(f"graph G {{{line_end}}}")
    assert container.names() == ("main.sknd",)
    assert container.read_source("main.sknd").text == f"graph G {{{line_end}}}"
    assert container.location("main.sknd") == container.path == "<text>"


def test_a_single_file_is_a_model_of_one_module(tmp_path: Path) -> None:
    folder(tmp_path, {"net.sknd": TEXT, "main.G.w.dat": b"w"})
    container = open_container(str(tmp_path / "net.sknd"))
    assert (container.main, container.names()) == ("net.sknd", ("net.sknd",))
    assert container.read_source("net.sknd").path == str(tmp_path / "net.sknd")
    assert not container.exists("main.G.w.dat")


def test_the_main_file_stands_for_its_folder(tmp_path: Path) -> None:
    assert open_container(folder(tmp_path) / "main.sknd").exists("main.G.w.dat")


def test_links_inside_a_folder_and_to_it_are_read_and_devices_are_not(tmp_path: Path) -> None:
    folder(tmp_path / "m", {"main.sknd": TEXT, "blobs/w": b"weights"})
    (tmp_path / "m" / "main.G.w.dat").symlink_to(tmp_path / "m" / "blobs" / "w")
    (tmp_path / "m" / "main.G.v.dat").symlink_to("/dev/zero")
    (tmp_path / "link").symlink_to(tmp_path / "m")
    for path in (tmp_path / "m", tmp_path / "link"):
        container = open_container(path)
        assert container.read("main.G.w.dat") == b"weights"
        assert container.names() == ("blobs/w", "main.G.w.dat", "main.sknd")


@pytest.mark.parametrize("name", ["main.sknd", "main.G.w.dat", "model.json", "sub/m.sknd"])
def test_links_that_lead_outside_are_refused(name: str, tmp_path: Path) -> None:
    folder(tmp_path / "m", {"main.sknd": TEXT})
    secret = folder(tmp_path / "outside", {"m.sknd": b"SECRET"})
    link = tmp_path / "m" / name
    link.unlink(missing_ok=True)
    if "/" in name:
        link.parent.symlink_to(secret)
    else:
        link.symlink_to(secret / "m.sknd")
    container = open_container(tmp_path / "m")
    for ask in (container.exists, container.size, container.read, container.read_source):
        with pytest.raises(NnefError, match="leads outside of the model folder") as caught:
            ask(name)
        assert "SECRET" not in str(caught.value)


def test_names_too_long_for_a_file_do_not_exist(tmp_path: Path) -> None:
    container = open_container(folder(tmp_path))
    assert not container.exists("a" * 300 + ".sknd")
    assert not container.exists("/".join("a" * 3000))


def test_a_text_beyond_the_limit_is_not_read(tmp_path: Path) -> None:
    container = open_container(folder(tmp_path, {"main.sknd": TEXT}))
    with (tmp_path / "model.json").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(NnefError, match="a text of 1099511627776 bytes"):
        container.read_text("model.json")


def test_a_plain_archive_changed_after_opening_is_noticed(tmp_path: Path) -> None:
    container = open_container(file(tar_of(FILES))(tmp_path / "m.tar"))
    (tmp_path / "m.tar").write_bytes(b"")
    with pytest.raises(NnefError, match="expected 7 bytes, got 0"):
        container.read("main.G.w.dat")


def test_a_missing_file_names_the_nearest(tmp_path: Path) -> None:
    container = open_container(folder(tmp_path))
    with pytest.raises(NnefError, match=r"no file 'main\.G\.v\.dat'") as caught:
        container.read("main.G.v.dat")
    assert caught.value.diagnostics[0].hint == "did you mean 'main.G.w.dat'?"


@pytest.mark.parametrize(
    "name", ["../secret", "/etc/passwd", "sub/../../x", "C:\\x", "a\\..\\..\\x"]
)
@pytest.mark.parametrize("kind", ["folder", "tar"])
def test_names_asked_for_stay_inside(kind: str, name: str, tmp_path: Path) -> None:
    container = open_container(KINDS[kind](tmp_path / "m"))
    with pytest.raises(NnefError, match="points outside"):
        container.read(name)


def test_a_text_in_another_encoding_is_pointed_at(tmp_path: Path) -> None:
    container = open_container(folder(tmp_path, {"main.sknd": b"\xef\xbb\xbf# ok\n# na\xefve\n"}))
    with pytest.raises(NnefError, match="UTF-8") as caught:
        container.read_source("main.sknd")
    assert (caught.value.diagnostics[0].line, caught.value.diagnostics[0].column) == (2, 5)


def test_nnef_1_models_are_files_and_no_nnef_2_model(tmp_path: Path) -> None:
    path = folder(tmp_path / "old", {"graph.nnef": b"version 1.0;", "conv/filter.dat": b"w"})
    assert open_files(path).main is None
    assert open_files(path).names() == ("conv/filter.dat", "graph.nnef")
    hint = fault(path).hint
    assert hint and "NNEF 1 model; convert it first" in hint
    packed = file(tar_of({"graph.nnef": b"", "w.dat": b""}, "old/"))(tmp_path / "old.tar")
    assert open_files(packed).names() == ("graph.nnef", "w.dat")


NO_MODEL: dict[str, tuple[Callable[[Path], Path], str, str]] = {
    # name: (what is there, part of the message, part of the hint)
    "missing": (lambda path: path, "no such file", "did you mean 'modem'"),
    "folder missing too": (lambda path: path / "a" / "b", "no such file", "not there either"),
    "empty folder": (lambda path: folder(path, {"x": b""}), "no 'main.sknd'", "main module"),
    "main misspelt": (lambda path: folder(path, {"Main.sknd": b""}), "no 'main.sknd'", "Main.sknd"),
    "one folder too high": (
        lambda path: folder(path, {"a/main.sknd": b"", "b/main.sknd": b""}),
        "no 'main.sknd'",
        "/main.sknd'?",
    ),
    "two models in an archive": (
        file(tar_of({"a/main.sknd": b"", "b/main.sknd": b""})),
        "no 'main.sknd'",
        "/a/main.sknd'?",
    ),
    "zip": (file(b"PK\3\4" + bytes(50)), "not a SkriptND model", "unpack it"),
    "binary": (file(b"\x08\0\x12" * 9), "not a SkriptND model", "a model is a folder"),
    "gzip of a text": (file(gzip.compress(TEXT)), "holds no tar", "a model is a folder"),
    "gzip of nothing": (file(gzip.compress(b"")), "holds no tar", "a model is a folder"),
    "pipe": (pipe, "neither a file", "a model is a folder"),
    "name too long": (lambda path: path / ("x" * 5000), "", ""),
    "name with a zero": (lambda path: path / "a\0b", "", ""),
    "folder with a zero": (lambda path: path / "a\0b" / "c", "", ""),
}


@pytest.mark.parametrize("case", NO_MODEL)
def test_what_is_not_a_model_is_refused_with_location_and_hint(case: str, tmp_path: Path) -> None:
    make, message, hint = NO_MODEL[case]
    (tmp_path / "modem").mkdir()
    path = make(tmp_path / "model")
    diagnostic = fault(path)
    assert message in diagnostic.message
    assert diagnostic.hint and hint in diagnostic.hint
    assert diagnostic.path == str(path)


MAIN = member("main.sknd", TEXT)
HOSTILE: dict[str, tuple[bytes, str]] = {
    "parent": (tar(MAIN, member("../evil.dat", b"x")), "'../evil.dat' points outside"),
    "parent inside": (tar(MAIN, member("a/../../evil", b"x")), "points outside"),
    "parent with backslash": (tar(MAIN, member("a\\..\\evil", b"x")), "points outside"),
    "absolute": (tar(MAIN, member("/etc/passwd", b"x")), "'/etc/passwd' points outside"),
    "drive": (tar(MAIN, member("C:/evil", b"x")), "points outside"),
    "parent folder": (tar(MAIN, member("..", type=tarfile.DIRTYPE)), "points outside"),
    "symbolic link": (
        tar(MAIN, member("w.dat", type=tarfile.SYMTYPE, linkname="/etc/passwd")),
        "'w.dat' is a link, to '/etc/passwd'",
    ),
    "hard link": (
        tar(MAIN, member("w.dat", type=tarfile.LNKTYPE, linkname="main.sknd")),
        "'w.dat' is a link",
    ),
    "device": (tar(MAIN, member("w.dat", type=tarfile.CHRTYPE)), "'w.dat' is not a regular file"),
    "pipe": (tar(MAIN, member("w.dat", type=tarfile.FIFOTYPE)), "'w.dat' is not a regular file"),
    "sparse": (tar(MAIN, member("w.dat", type=tarfile.GNUTYPE_SPARSE)), "'w.dat' is not a regular"),
    "unknown kind": (tar(MAIN, member("w.dat", type=b"Z")), "'w.dat' is not a regular file"),
    "twice": (tar(MAIN, member("./main.sknd", b"x")), "'./main.sknd' is twice"),
    "no name": (tar(MAIN, member(".", b"x")), "has no name"),
    "larger than the archive": (
        tar(MAIN)[:1024] + member("w.dat", size=2**40)[0].tobuf(tarfile.GNU_FORMAT),
        "'w.dat' is cut off: it has 1099511627776 bytes",
    ),
    "negative size": (
        tar(MAIN)[:1024] + member("w.dat", size=-(2**40))[0].tobuf(tarfile.GNU_FORMAT),
        "'w.dat' is cut off: it has -1099511627776",
    ),
    "extended header larger than memory": (
        member("x", size=2**60, type=b"x")[0].tobuf(tarfile.GNU_FORMAT),
        "damaged or cut off",
    ),
    "chain of long names": (
        member("L", b"", type=b"L", size=1)[0].tobuf(tarfile.GNU_FORMAT).ljust(1024, b"a") * 3000,
        "damaged or cut off",
    ),
    "no end mark": (tar(MAIN)[:1024], "no end mark"),
    "header damaged in the middle": (
        tar(MAIN)[:1024] + b"garbage" * 100 + bytes(1024),
        "no end mark",
    ),
    "cut off in the middle": (tar(member("main.sknd", bytes(5000)))[:3000], "cut off"),
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_archives_are_refused_naming_the_member(
    case: str, packed: bool, tmp_path: Path
) -> None:
    data, message = HOSTILE[case]
    path = file(gzip.compress(data) if packed else data)(tmp_path / "m.tgz")
    diagnostic = fault(path)
    assert message in diagnostic.message
    assert diagnostic.path == str(path)
    assert list(tmp_path.iterdir()) == [path]


def test_compressed_archives_cut_off_or_damaged_are_refused(tmp_path: Path) -> None:
    data = gzip.compress(tar_of(FILES))
    for broken in (data[:-9], data[:40], data[:-8] + bytes(8), data + b"trailing"):
        assert "damaged or cut off" in fault(file(broken)(tmp_path / "m")).message


def test_bombs_are_refused_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_UNPACKED", 1 << 20)
    bomb = gzip.compress(tar(MAIN, member("w.dat", bytes(8 << 20))))
    assert "unpacks to more than" in fault(file(bomb)(tmp_path / "m")).message


def test_limits_do_not_stop_a_model_that_compresses_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "MAX_UNPACKED", 1)
    data = gzip.compress(tar(MAIN, member("w.dat", os.urandom(1 << 20))))
    assert open_container(file(data)(tmp_path / "m")).size("w.dat") == 1 << 20


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.DIRTYPE])
def test_too_many_members_are_refused(
    kind: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "MAX_MEMBERS", 10)
    data = tar(*(member(f"m{index}", type=kind) for index in range(11)))
    assert "more than 10 members" in fault(file(data)(tmp_path / "m")).message


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_no_damage_to_an_archive_crashes(data: st.DataObject) -> None:
    content = bytearray(tar_of(FILES, form=data.draw(st.sampled_from([0, 1, 2]))))
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, 3000)) % len(content)
        content[at] = data.draw(st.integers(0, 255))
    cut = bytes(content[: data.draw(st.integers(0, len(content)))])
    with contextlib.suppress(NnefError):
        members = archive.index_tar(io.BytesIO(cut), len(cut), "m.tar")
        assert all(m.offset + m.size <= len(cut) for m in members.values())


def test_models_are_opened_without_numpy() -> None:
    code = "import sys, tvm_nnef.storage.container, tvm_nnef.storage.metadata; "
    code += "sys.exit('numpy' in sys.modules or 'tvm' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_variable_files_are_named_by_the_full_name() -> None:
    assert variable_file_name("main.G.op1.w") == "main.G.op1.w.dat"
    assert variable_file_name("main.G.p:1") == "main.G.p:1.dat"


def extended(kind: bytes, data: bytes) -> bytes:
    return member("x", size=len(data), type=kind)[0].tobuf(tarfile.GNU_FORMAT) + data.ljust(
        -(-len(data) // 512) * 512, b"\0"
    )


def record(key: str) -> bytes:
    return f"{len(key) + 6:2d} {key}=1\n".encode()


@pytest.mark.parametrize(("header", "message"), [
    (extended(b"g", b"".join(record(f"a{n:06d}") for n in range(100))), "64 values in global"),
    (extended(b"g", b"".join(record(f"a{n:06d}") for n in range(10**5))), "unusual size"),
    (extended(b"x", b"".join(record(f"a{n:06d}") for n in range(10**5))), "unusual size"),
    (extended(b"L", b"a" * 10**6), "unusual size"),
])  # fmt: skip
def test_large_extended_headers_are_refused(header: bytes, message: str, tmp_path: Path) -> None:
    assert message in fault(file(header + tar(MAIN))(tmp_path / "m.tar")).message


def test_a_small_global_header_is_read(tmp_path: Path) -> None:
    packed = extended(b"g", b"52 comment=" + b"a" * 40 + b"\n") + tar(MAIN)
    assert open_container(file(packed)(tmp_path / "m.tar")).read("main.sknd") == TEXT
