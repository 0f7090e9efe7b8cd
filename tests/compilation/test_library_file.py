"""Libraries on disk: written whole, loaded by content, verified before they are loaded."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.diagnostics import NnefError
from tvm_nnef.executable.loading import load
from tvm_nnef.executable.metadata import read_metadata
from tvm_nnef.executable.runtime import Executable

X = np.array([1, -2, 3], "float32")
MODEL = """
import math;
graph G { @input { x: real[3]; } @output { y: real[3]; } @compose { y = math.add(x, x); } }
"""
NAMES = ["model", "model.so", "model.bin", "model.xyz", "m.o.d", "model.tar", "model.tgz",
         "model.tar.gz", "x" * 250]  # fmt: skip


@pytest.fixture(scope="module")
def executable() -> Executable:
    return tvm_nnef.build(MODEL, progress=False)


@pytest.fixture(scope="module")
def library(executable: Executable, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("library") / "model.so"
    executable.export(path)
    return path


def check(path: Path) -> None:
    np.testing.assert_array_equal(load(path)(X)[0], X + X)


@pytest.mark.parametrize("name", NAMES)
def test_a_library_is_loaded_whatever_its_name(
    name: str, executable: Executable, tmp_path: Path
) -> None:
    executable.export(tmp_path / name)
    (tmp_path / name).rename(tmp_path / "renamed.txt")
    (tmp_path / "renamed").mkdir()
    check(tmp_path / "renamed.txt")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["renamed", "renamed.txt"]


def test_an_archive_is_loaded_beside_a_folder_of_its_name(
    executable: Executable, tmp_path: Path
) -> None:
    (tmp_path / "model").mkdir()
    executable.export(tmp_path / "model.tar")
    check(tmp_path / "model.tar")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "model.tar"]


@pytest.mark.parametrize("first", ["a.so", "a.tar", "a.tgz"])
@pytest.mark.parametrize("second", ["b.so", "b.tar", "b.tgz"])
def test_a_loaded_library_is_exported_as_the_kind_of_its_new_name(
    first: str, second: str, executable: Executable, tmp_path: Path
) -> None:
    executable.export(tmp_path / first)
    load(tmp_path / first).export(tmp_path / second)
    begins = {"so": b"\x7fELF", "tgz": b"\x1f\x8b"}
    start = (tmp_path / second).read_bytes()[:4]
    kind = next((k for k, magic in begins.items() if start.startswith(magic)), "tar")
    assert kind == second.split(".")[1]
    check(tmp_path / second)


def test_a_model_without_kernels_is_object_code_too(tmp_path: Path) -> None:
    text = "graph G { @input { x: real[3]; } @output { y: real[3]; }\n@compose { y = x; } }"
    tvm_nnef.build(text, progress=False).export(tmp_path / "model.tar")
    np.testing.assert_array_equal(load(tmp_path / "model.tar")(X)[0], X)
    with tarfile.open(tmp_path / "model.tar") as archive:
        assert {name.split(".")[-1] for name in archive.getnames()} == {"json", "o"}


def test_equal_libraries_give_equal_archives(executable: Executable, tmp_path: Path) -> None:
    for name in ("a.tar", "b.tar"):
        executable.export(tmp_path / name)
    assert (tmp_path / "a.tar").read_bytes() == (tmp_path / "b.tar").read_bytes()


def damaged(library: Path, folder: Path) -> dict[str, Path]:
    """Files made of a library: cut off, with flipped bits, with more after, and others."""
    data, made = library.read_bytes(), dict[str, bytes]()
    made |= {f"cut {n}": data[: len(data) * n // 32] for n in range(32)}
    made |= {"without the last byte": data[:-1], "with one more": data + b"\0"}
    generator = np.random.default_rng(0)
    for _ in range(30):
        at = int(generator.integers(len(data)))
        flipped = bytes([data[at] ^ 1 << int(generator.integers(8))])
        made[f"flipped at {at}"] = data[:at] + flipped + data[at + 1 :]
    made["metadata edited"] = data.replace(b'"bounds"', b'"bonuds"')
    made["text"] = b"graph G {}\n"
    made["ELF"] = b"\x7fELF" + bytes(1000)
    made["gzip"] = b"\x1f\x8b" + bytes(100)
    paths = {}
    for number, (name, content) in enumerate(made.items()):
        assert content != data
        paths[name] = folder / f"{number}.so"
        paths[name].write_bytes(content)
    return paths


def test_damaged_libraries_are_refused_before_they_are_mapped(
    library: Path, tmp_path: Path
) -> None:
    for name, path in damaged(library, tmp_path).items():
        with pytest.raises(NnefError) as caught:
            load(path)
        assert caught.value.diagnostics[0].hint, name


def test_damaged_archives_are_refused(executable: Executable, tmp_path: Path) -> None:
    for name in ("model.tar", "model.tgz"):
        executable.export(tmp_path / name)
        data = (tmp_path / name).read_bytes()
        middle = len(data) // 3
        for content in (data[:middle], data[:middle] + b"\xaa" + data[middle + 1 :]):
            (tmp_path / "damaged").write_bytes(content)
            with pytest.raises(NnefError):
                load(tmp_path / "damaged")


@pytest.mark.parametrize("name", ["", "\0", "x" * 300, "absent.so", ".", "/dev/null"])
def test_paths_without_a_library_are_refused(name: str) -> None:
    with pytest.raises(NnefError) as caught:
        load(name)
    assert caught.value.diagnostics[0].hint


def test_a_system_library_is_not_loaded() -> None:
    import math

    file = getattr(math, "__file__", None)
    if file is None:
        pytest.skip("the module math is built in")
    with pytest.raises(NnefError, match="cannot load"):
        load(file)


CHANGES: dict[str, Any] = {
    **dict.fromkeys(
        ("inputs", "outputs", "bounds", "state", "checks", "versions", "target", "weights")
    ),
    "inputs 0": {"inputs": [{"name": "x", "shape": [3], "dtype": "float31"}]},
    "inputs 1": {"inputs": [{"name": "x", "dtype": "float32"}]},
    "inputs 2": {"inputs": 3},
    "format": {"format": 99},
    "older": {"versions": {"tvm": "0.19.0", "tvm_nnef": "0.0.1"}},
}


@pytest.mark.parametrize("change", CHANGES)
def test_metadata_of_another_version_are_refused(change: str, executable: Executable) -> None:
    metadata = dict(executable.metadata)
    assert read_metadata(json.dumps(metadata)) == metadata
    if CHANGES[change] is None:
        del metadata[change]
    else:
        metadata |= CHANGES[change]
    with pytest.raises(NnefError) as caught:
        read_metadata(json.dumps(metadata))
    assert caught.value.diagnostics[0].hint


def test_what_is_not_metadata_is_refused() -> None:
    for text in ("", "3", "[]", "{}", "null", "[" * 100_000):
        with pytest.raises(NnefError):
            read_metadata(text)


def test_a_library_that_was_replaced_since_it_was_loaded_is_not_exported(
    library: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.so"
    shutil.copyfile(library, copy)
    loaded = load(copy)
    copy.unlink()
    copy.write_bytes(b"something else")
    with pytest.raises(NnefError):
        loaded.export(tmp_path / "second.so")
    assert not (tmp_path / "second.so").exists()


@pytest.mark.parametrize("name", ["x.zip", "x.o", "x.onnx", "x.gz", "", ".", "absent/x.so"])
def test_names_of_other_files_are_refused(
    name: str, executable: Executable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NnefError) as caught:
        executable.export(name)
    assert caught.value.diagnostics[0].hint
    assert not list(tmp_path.iterdir())


def test_devices_and_links_stay(executable: Executable, devices: Path, tmp_path: Path) -> None:
    executable.export(devices / "null")
    with pytest.raises(NnefError, match="No space left"):
        executable.export(devices / "full")
    assert all(stat.S_ISCHR((devices / name).stat().st_mode) for name in ("null", "full"))
    (tmp_path / "link").symlink_to("real.so")
    executable.export(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    check(tmp_path / "real.so")


FULL_DISK = f"""
import resource, sys, tvm_nnef
exe = tvm_nnef.build({MODEL!r}, progress=False)
for limit in (0, 1000, 10_000):
    for name in sys.argv[1:]:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        try:
            exe.export(name)
        except tvm_nnef.NnefError as problem:
            print("refused:", problem.diagnostics[0].hint)
"""


@pytest.mark.slow
def test_a_full_disk_is_reported_and_nothing_is_left(library: Path, tmp_path: Path) -> None:
    assert library.stat().st_size > 10_000
    files = [tmp_path / "x.so", tmp_path / "x.tar"]
    for file in files:
        file.write_bytes(b"old")
    run = subprocess.run(
        [sys.executable, "-c", FULL_DISK, *map(str, files)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0 and not run.stderr
    assert run.stdout.count("refused:") == run.stdout.count("limits on file sizes") == 6
    assert sorted(tmp_path.iterdir()) == files
    assert all(file.read_bytes() == b"old" for file in files)


def commands(folder: Path, *names: str) -> Path:
    """A folder with links to the commands of these names, to be the PATH."""
    folder.mkdir()
    for name in names:
        found = shutil.which(name)
        if found is None:
            pytest.skip(f"{name} is not installed")
        (folder / name).symlink_to(os.path.realpath(found))
    return folder


def test_without_a_compiler_the_error_says_what_to_install(
    executable: Executable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(commands(tmp_path / "bin")))
    for variable in ("CXX", "CC"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(NnefError, match="there is no C\\+\\+ compiler") as caught:
        executable.export(tmp_path / "model.so")
    assert "install" in str(caught.value.diagnostics[0].hint)
    executable.export(tmp_path / "model.tar")
    with pytest.raises(NnefError, match="there is no C\\+\\+ compiler"):
        load(tmp_path / "model.tar")
    monkeypatch.setenv("CXX", "no-such-compiler -O2")
    with pytest.raises(NnefError, match="'no-such-compiler' that \\$CXX names is missing"):
        executable.export(tmp_path / "model.so")


@pytest.mark.skipif(sys.platform != "linux", reason="needs a linker of ELF files")
def test_a_linker_does_without_a_compiler(
    executable: Executable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(commands(tmp_path / "bin", "ld")))
    for variable in ("CXX", "CC"):
        monkeypatch.delenv(variable, raising=False)
    executable.export(tmp_path / "model.so")
    check(tmp_path / "model.so")


def test_a_failing_linker_is_reported(
    executable: Executable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "false")
    with pytest.raises(NnefError, match="linking with 'false' fails"):
        executable.export(tmp_path / "model.so")
    assert not list(tmp_path.iterdir())
