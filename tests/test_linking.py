"""Linkers are chosen by the machine of the target, and their results are checked."""

from __future__ import annotations

import platform
import shutil
import sys
from pathlib import Path

import pytest

import tvm_nnef
import tvm_nnef.cli.build
from tvm_nnef.cli import main
from tvm_nnef.diagnostics import NnefError
from tvm_nnef.executable import linking
from tvm_nnef.executable.linking import Machine, find_linker
from tvm_nnef.executable.loading import load
from tvm_nnef.executable.runtime import Executable

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs ELF files and a shell")

OTHER = "riscv64" if platform.machine() == "aarch64" else "aarch64"
"""An architecture that is not that of this machine."""

COPY = shutil.which("cp")

MODEL = """
import math;
graph G { @input { x: real[3]; } @output { y: real[3]; } @compose { y = math.add(x, x); } }
"""


@pytest.fixture(scope="module")
def executable() -> Executable:
    return tvm_nnef.build(MODEL, OTHER, progress=False)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the whole PATH, without compilers elsewhere."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(linking, "_zig", lambda machine, here: [])
    for variable in ("CXX", "CC"):
        monkeypatch.delenv(variable, raising=False)
    return folder


def tool(folder: Path, name: str, machine: str = "", action: str = "exit 1") -> str:
    """A compiler that says for which machine it compiles; otherwise it runs shell commands."""
    file = folder / name
    answer = f"echo {machine}; exit 0" if machine else "exit 1"
    file.write_text(f'#!/bin/sh\nif [ "$1" = -dumpmachine ]; then {answer}; fi\n{action}\n')
    file.chmod(0o755)
    return str(file)


@pytest.mark.parametrize(
    ("triple", "machine", "system"),
    [("aarch64-linux-gnu", "aarch64-linux-gnu", "linux"),
     ("aarch64-unknown-linux-gnu", "aarch64-linux-gnu", "linux"),
     ("arm64-apple-darwin23.1.0", "aarch64-darwin23.1.0", "darwin"),
     ("armv7l-linux-gnueabihf", "arm-linux-gnueabihf", "linux"),
     ("x86_64-conda-linux-gnu", "x86_64-linux-gnu", "linux"),
     ("amd64-linux-musl", "x86_64-linux-musl", "linux"),
     ("x86_64-w64-mingw32", "x86_64-mingw32", "windows"),
     ("arm-none-eabihf", "arm-eabihf", "eabi"),
     ("riscv64-none-elf", "riscv64-elf", "elf"), ("riscv64", "riscv64", "")],
)  # fmt: skip
def test_a_triple_names_a_machine(triple: str, machine: str, system: str) -> None:
    found = Machine.of(triple)
    assert (str(found), found.operating_system) == (machine, system)


@pytest.mark.parametrize(
    ("one", "other", "fits"),
    [("x86_64-pc-linux-gnu", "x86_64-linux-musl", True), ("aarch64-linux-gnu", "arm64", True),
     ("aarch64-linux-gnu", "x86_64-linux-gnu", False), ("arm-linux-gnu", "aarch64-linux", False),
     ("aarch64-linux-gnu", "arm64-apple-darwin", False), ("riscv32-elf", "riscv64-elf", False)],
)  # fmt: skip
def test_a_compiler_fits_a_machine_of_its_architecture_and_system(
    one: str, other: str, fits: bool
) -> None:
    assert Machine.of(one).fits(Machine.of(other)) is fits


@pytest.mark.parametrize(
    ("triple", "names"),
    [("aarch64-linux-gnu", ["aarch64-linux-gnu-g++"]),
     ("aarch64-unknown-linux-gnu", ["aarch64-linux-gnu-gcc", "ld.lld"]),
     ("armv7l-linux-gnueabihf", ["arm-linux-gnueabihf-g++"]),
     ("riscv64-linux-gnu", ["riscv64-unknown-linux-gnu-clang"]),
     ("s390x-linux-gnu", ["ld.lld"]), ("powerpc64le-linux-gnu", ["powerpc64le-linux-gnu-ld"])],
)  # fmt: skip
def test_a_cross_compiler_is_found_by_its_name(triple: str, names: list[str], path: Path) -> None:
    for name in ("c++", "g++", "cc", "ld", *names):
        tool(path, name)
    assert find_linker(triple)[:2] == [str(path / names[0]), "-shared"]


def test_a_linker_alone_does_not_link_for_32_bits(path: Path) -> None:
    for name in ("ld.lld", "ld", "arm-linux-gnueabihf-ld"):
        tool(path, name)
    with pytest.raises(NnefError, match="no compiler or linker for arm-linux-gnueabihf"):
        find_linker("armv7l-linux-gnueabihf")


def test_the_package_ziglang_links_for_every_machine(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("PATH", str(path))
    monkeypatch.setattr(linking.importlib.util, "find_spec", lambda name: name)
    command = find_linker("armv7l-linux-gnueabihf")
    assert command[1:6] == ["-m", "ziglang", "cc", "-target", "arm-linux-gnueabihf"]


def test_the_compiler_of_the_environment_is_used_if_it_is_for_the_machine(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = tool(path, "cross", f"{OTHER}-unknown-linux-gnu")
    monkeypatch.setenv("CC", f"{named} -O2")
    monkeypatch.setenv("CXX", tool(path, "here", f"{platform.machine()}-linux-gnu"))
    assert find_linker(f"{OTHER}-linux-gnu")[:2] == [named, "-O2"]
    assert find_linker()[0] == str(path / "here")


def test_a_compiler_for_another_machine_is_not_used(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", tool(path, "cross", f"{OTHER}-linux-gnu"))
    tool(path, "c++")
    assert find_linker()[0] == str(path / "c++")
    monkeypatch.setenv("CXX", str(path / "c++"))
    assert find_linker(f"{OTHER}-linux-gnu")[0] == str(path / "c++")  # It does not say.
    tool(path, "c++", f"{platform.machine()}-linux-gnu")
    with pytest.raises(NnefError) as caught:
        find_linker(f"{OTHER}-linux-gnu")
    assert f"compiles for {platform.machine()}-linux-gnu" in caught.value.diagnostics[0].message


def test_without_a_cross_compiler_the_error_says_what_to_install(
    path: Path, executable: Executable, tmp_path: Path
) -> None:
    tool(path, "c++")
    with pytest.raises(NnefError) as caught:
        executable.export(tmp_path / "model.so")
    (found,) = caught.value.diagnostics
    assert f"no compiler or linker for {OTHER}-linux-gnu" in found.message
    assert f"apt install g++-{OTHER}-linux-gnu" in str(found.hint)
    assert "ziglang" in str(found.hint)
    assert sorted(tmp_path.iterdir()) == [path]
    executable.export(tmp_path / "model.tar")
    with pytest.raises(NnefError, match=f"a library for {OTHER} with Linux"):
        load(tmp_path / "model.tar")


@pytest.mark.parametrize(
    ("target", "message"),
    [(OTHER, f"no compiler or linker for {OTHER}"), ("spam", "unknown target 'spam'"),
     ("wasm32", "no shared libraries"), (f"{OTHER}:+zzz", "no CPU feature 'zzz'")],
)  # fmt: skip
def test_the_command_reports_what_is_missing_before_the_work(
    target: str, message: str, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(tvm_nnef.cli.build, "build", lambda *_, **__: pytest.fail("it began"))
    model = tmp_path / "model.sknd"
    model.write_text(MODEL)
    command = ["build", str(model), "--target", target, "-o", str(tmp_path / "model.so")]
    assert main(command) == 1
    printed = capsys.readouterr().err
    assert message in printed and "hint:" in printed
    assert sorted(tmp_path.iterdir()) == [path, model]


def test_webassembly_has_no_shared_libraries(tmp_path: Path) -> None:
    made = tvm_nnef.build(MODEL, "wasm32", progress=False)
    with pytest.raises(NnefError, match="no shared libraries") as caught:
        made.export(tmp_path / "model.so")
    assert "model.tar" in str(caught.value.diagnostics[0].hint)
    assert not list(tmp_path.iterdir())
    made.export(tmp_path / "model.tar")


@pytest.mark.parametrize(
    ("result", "message"),
    [(sys.executable, f"not a library for {OTHER} but for"), ("/dev/null", "not a library for"),
     ("/nowhere", "fails: ")],
)  # fmt: skip
def test_what_is_linked_for_another_machine_is_refused(
    result: str, message: str, path: Path, executable: Executable, tmp_path: Path
) -> None:
    copy = f'while [ "$1" != -o ]; do shift; done\n{COPY} {result} "$2"'
    (tmp_path / "model.so").write_bytes(b"old")
    tool(path, f"{OTHER}-linux-gnu-g++", action=copy)
    with pytest.raises(NnefError, match=message):
        executable.export(tmp_path / "model.so")
    assert sorted(tmp_path.iterdir()) == [path, tmp_path / "model.so"]
    assert (tmp_path / "model.so").read_bytes() == b"old"
