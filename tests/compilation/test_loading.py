"""Loading a library: what is imported for it, and which libraries are refused before they run."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm_ffi

import tvm_nnef
from tvm_nnef.compilation.metadata import describe
from tvm_nnef.compilation.target import resolve
from tvm_nnef.diagnostics import NnefError
from tvm_nnef.executable.loading import load
from tvm_nnef.support import host_machine
from tvm_nnef.tvm_support import runtime

X = np.array([1, -2, 3], "float32")
MODEL = """
import math;
graph G { @input { x: real[3]; } @output { y: real[3]; } @compose { y = math.add(x, x); } }
"""
TRAILER = re.compile(rb"\ntvm-nnef library, ([ \d]{12}) bytes of metadata, sha256 .*: (\w{64})\n$")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("library") / "model.so"
    tvm_nnef.build(MODEL, progress=False).export(path)
    return path


RUN = """
import sys
import tvm_nnef
assert tvm_nnef.load(sys.argv[1])([1, -2, 3])[0].tolist() == [2, -4, 6]
"""


def run(program: str, library: Path, path: Path | None = None) -> str:
    """What a program prints, in a fresh process, with another folder before the packages."""
    first = "" if path is None else f"import sys; sys.path.insert(0, {str(path)!r})\n"
    command = [sys.executable, "-c", first + program, str(library)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_loading_and_running_imports_no_compiler(library: Path) -> None:
    names = run(RUN + "print(*sys.modules)", library).split()
    packages = {name.split(".")[0] for name in names}
    assert "numpy" in packages
    assert not packages & {"tvm", "lark", "onnx", "torch"}
    own = {name.split(".")[1] for name in names if name.startswith("tvm_nnef.")}
    compiler = {"api", "composition", "lower", "schedules", "semantics", "syntax", "compilation"}
    assert not own & compiler
    assert "tvm_nnef.reference.graphs" not in names


def test_only_the_runtime_of_tvm_is_needed(library: Path, tmp_path: Path) -> None:
    """A package with nothing but the runtime library, which cannot be imported."""
    installed = Path(next(iter(runtime._package().glob("lib/*tvm_runtime.*"))))
    package = tmp_path / "tvm"
    (package / "lib").mkdir(parents=True)
    (package / "lib" / installed.name).symlink_to(installed)
    for name in ("libinfo.py", "_version.py"):
        (package / name).symlink_to(runtime._package() / name)
    (package / "__init__.py").write_text("raise ImportError('the compiler is not installed')\n")
    maps = "print(open('/proc/self/maps').read())" if sys.platform == "linux" else ""
    mapped = run(RUN + maps, library, tmp_path)
    assert "libtvm_compiler" not in mapped


@pytest.mark.slow
def test_models_are_built_after_a_library_was_loaded(library: Path) -> None:
    program = (
        f"import tvm_nnef as n\nassert n.build({MODEL!r}, progress=False)([1, 2, 3])[0][2] == 6"
    )
    run(RUN + program + RUN, library)


CHECKED = """
operator pick {
    @input { x: real[n]; k: int[m]; }
    @output { y: real[m]; }
    @lower { y[i] = x[k[i]], i < m; }
}
graph G { @input { x: real[3]; k: int[2]; } @output { y: real[2]; } @compose { y = pick(x, k); } }
"""


def test_checks_are_reported_without_the_compiler(tmp_path: Path) -> None:
    path = tmp_path / "model.so"
    tvm_nnef.build(CHECKED, checked=True, progress=False).export(path)
    program = """
import sys
import tvm_nnef
pick = tvm_nnef.load(sys.argv[1])
print(pick([1, 2, 3], [2, 0])[0].tolist())
try:
    pick([1, 2, 3], [2, 3])
except tvm_nnef.NnefError as problem:
    print(problem, "tvm" in sys.modules)
"""
    first, second, *_, last = run(program, path).splitlines()
    assert first == "[3.0, 1.0]"
    assert "uses an index outside of 'x'" in second
    assert last.endswith("False")


def changed(
    library: Path, path: Path, change: Callable[[dict[str, Any]], Any], code: bytes
) -> Path:
    """A file as an export would have written it, with changed metadata, and other code."""
    data = library.read_bytes()
    trailer = TRAILER.search(data)
    assert trailer
    metadata = json.loads(data[trailer.start() - int(trailer[1]) : trailer.start()])
    change(metadata)
    text = json.dumps(metadata).encode()
    digest = hashlib.sha256(code + text).hexdigest().encode()
    line = b"\ntvm-nnef library, %12d bytes of metadata, sha256 of all before: %s\n"
    path.write_bytes(code + text + line % (len(text), digest))
    return path


OTHER = "riscv64" if host_machine.architecture() == "aarch64" else "aarch64"
SYSTEM = "Windows" if sys.platform == "linux" else "Linux"
HERE = host_machine.architecture()

# A change of the metadata, and the words of the error, which name both sides.
REFUSED: dict[str, tuple[Callable[[dict[str, Any]], Any], list[str]]] = {
    "architecture": (
        lambda m: m["target"].update(triple=f"{OTHER}-linux-gnu"),
        [f"a library for {OTHER}", f"this machine is {HERE}"],
    ),
    "system": (
        lambda m: m["target"].update(triple=f"{HERE.replace('x86-64', 'x86_64')}-{SYSTEM.lower()}"),
        [f"for {HERE} with {SYSTEM}", f"this machine is {HERE} with"],
    ),
    "features": (
        lambda m: m["target"].update(features=["avx512f", "future1", "future2"], cpu="next"),
        ["a library for a CPU such as 'next' with", "future1, future2", "this CPU does not have"],
    ),
    "format": (
        lambda m: m.update(format=99),
        ["has the format 99", "this version reads"],
    ),
    "TVM": (
        lambda m: m["versions"].update(tvm="0.19.0"),
        ["for TVM 0.19.0", f"this is TVM {runtime.version()}"],
    ),
    "TVM FFI": (
        lambda m: m["versions"].update(tvm_ffi="9.9.0"),
        ["for TVM FFI 9.9.0", f"this is TVM FFI {tvm_ffi.__version__}"],
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_libraries_for_others_are_refused_with_what_they_need_and_what_is_here(
    case: str, library: Path, tmp_path: Path
) -> None:
    change, words = REFUSED[case]
    path = changed(library, tmp_path / "other.so", change, b"\x7fELF, but no code at all")
    if case == "features" and host_machine.present_features() is None:
        pytest.skip("the operating system does not list the features of the CPU")
    with pytest.raises(NnefError) as caught:
        load(path)
    (diagnostic,) = caught.value.diagnostics
    assert all(word in diagnostic.message for word in words), diagnostic.message
    assert diagnostic.hint
    assert "\n" not in diagnostic.message


def test_code_that_is_none_is_refused(library: Path, tmp_path: Path) -> None:
    path = changed(library, tmp_path / "other.so", lambda m: None, b"\x7fELF, but no code at all")
    with pytest.raises(NnefError, match="cannot load") as caught:
        load(path)
    assert caught.value.diagnostics[0].hint


def test_a_library_for_a_gpu_is_refused_where_there_is_no_driver(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(metadata: dict[str, Any]) -> None:
        metadata["target"].update(device="cuda", arch="sm_80")

    path = changed(library, tmp_path / "other.so", change, b"\x7fELF, but no code at all")
    monkeypatch.setattr(runtime, "missing_library", lambda part: "libcuda.so.1: not found")
    with pytest.raises(NnefError, match="is a library for cuda, whose driver") as caught:
        load(path)
    assert "libcuda.so.1" in str(caught.value.diagnostics[0].hint)


def test_the_cpu_features_of_a_target_are_listed() -> None:
    """Those of the levels 2 and 3 of x86-64, as the psABI of x86-64 defines them."""
    mod = tvm_nnef.from_nnef(MODEL)
    second = {"sse", "sse2", "sse3", "ssse3", "sse4.1", "sse4.2", "popcnt"}
    third = second | {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"}
    for name, expected in (("x86-64-v2", second), ("x86-64-v3", third)):
        target = describe(mod, resolve(name))["target"]
        assert set(target["features"]) == expected
        assert (target["device"], target["cpu"]) == ("cpu", name)
        assert host_machine.architecture_of(target["triple"]) == "x86-64"


def test_labels_and_images_are_in_the_metadata() -> None:
    digits = Path(__file__).parents[2] / "docs" / "examples" / "digits"
    given = json.loads((digits / "model.json").read_text())
    found = describe(tvm_nnef.from_nnef(digits), resolve("llvm"))
    assert (found["labels"], found["images"]) == (given["labels"], given["inputs"])
    without = describe(tvm_nnef.from_nnef(MODEL), resolve("llvm"))
    assert (without["labels"], without["images"]) == ([], {})


def test_the_metadata_of_a_native_library_describe_this_machine(library: Path) -> None:
    target = load(library).metadata["target"]
    assert host_machine.architecture_of(target["triple"]) == host_machine.architecture()
    assert host_machine.system_of(target["triple"]) == host_machine.system()
    present = host_machine.present_features()
    assert present is None or set(target["features"]) <= present


LISTED = {
    "x86-64": (
        "processor : 0\nflags\t: fpu sse sse2 pni sse4_1 avx abm bmi1 avx512_vnni avx512f\n"
        "processor : 1\nflags\t: fpu sse sse2 pni sse4_1 avx abm bmi1 avx512_vnni\n",
        {"sse", "sse2", "sse3", "sse4.1", "avx", "lzcnt", "bmi", "avx512vnni"},
    ),
    "aarch64": (
        "Features\t: fp asimd evtstrm atomics fphp asimdhp asimddp\n",
        {"neon", "lse", "fullfp16", "dotprod"},
    ),
    "arm": ("Features\t: half thumb vfpv3 neon idiva\n", {"vfp3", "neon", "hwdiv-arm"}),
    "riscv64": (
        "isa\t\t: rv64imafdcv_zicsr_zba_zbb\n",
        {"m", "a", "f", "d", "c", "v", "zba", "zbb"},
    ),
}


@pytest.mark.parametrize("architecture", LISTED)
def test_cpu_features_are_read_as_linux_lists_them(architecture: str) -> None:
    text, expected = LISTED[architecture]
    assert host_machine.features_listed(architecture, text) == expected
    others = [text for name, (text, _) in LISTED.items() if name != architecture]
    for other in ("model name : x\n", "isa : rv64\n", "flags : \n", others[-1]):
        assert host_machine.features_listed(architecture, other) is None


@pytest.mark.parametrize(
    ("triple", "architecture", "system"),
    [
        ("x86_64-conda-linux-gnu", "x86-64", "Linux"),
        ("arm64-apple-macos11", "aarch64", "macOS"),
        ("armv7l-linux-gnueabihf", "arm", "Linux"),
        ("riscv64-linux-gnu", "riscv64", "Linux"),
        ("x86_64-pc-windows-msvc", "x86-64", "Windows"),
        ("wasm32-unknown-unknown", "wasm32", ""),
        ("sparc-sun-solaris", "sparc", ""),
    ],
)
def test_target_triples_name_machines(triple: str, architecture: str, system: str) -> None:
    assert host_machine.architecture_of(triple) == architecture
    assert host_machine.system_of(triple) == system
