"""An exported library for aarch64 in TVM's own runtime for that CPU, in an emulator."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

import tvm_nnef

TRIPLE = "aarch64-linux-gnu"
DIGITS = Path(__file__).resolve().parents[2] / "docs" / "examples" / "digits"


def runtime(folder: Path) -> Path:
    """TVM's packages for aarch64, unpacked; the test is skipped if they cannot be downloaded."""
    names = [f"{name}=={version(name)}" for name in ("apache-tvm", "apache-tvm-ffi")]
    platforms = [f"--platform=manylinux_2_{minor}_aarch64" for minor in (24, 27, 28)]
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder)]
    command += ["--only-binary=:all:", *platforms, *names]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=180)
    except subprocess.SubprocessError:
        pytest.skip("TVM's packages for aarch64 cannot be downloaded")
    for wheel in folder.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            parts = [name for name in archive.namelist() if "compiler" not in name]
            archive.extractall(folder / "packages", parts)
    return folder / "packages"


@pytest.mark.slow
def test_a_library_for_aarch64_runs_in_the_runtime_of_tvm(tmp_path: Path) -> None:
    emulator, compiler = shutil.which("qemu-aarch64"), shutil.which(f"{TRIPLE}-g++")
    if emulator is None or compiler is None:
        pytest.skip(f"qemu-user or g++-{TRIPLE} is not installed")
    packages = runtime(tmp_path)
    ours, theirs = packages / "tvm_ffi", packages / "tvm"
    program, source = tmp_path / "run_digits", Path(__file__).with_name("run_digits.cc")
    options = ["-std=c++17", "-O1", f"-I{ours / 'include'}", str(source), f"-L{ours / 'lib'}"]
    command = [compiler, *options, "-ltvm_ffi", "-ldl", "-o", str(program)]
    subprocess.run(command, check=True)
    tvm_nnef.build(DIGITS, "aarch64", progress=False).export(tmp_path / "model.so")
    image = np.random.default_rng(0).random((1, 1, 8, 8), "float32")
    paths = f"LD_LIBRARY_PATH={theirs / 'lib'}:{ours / 'lib'}"
    run = subprocess.run(
        [emulator, "-E", paths, "-L", f"/usr/{TRIPLE}", str(program), str(tmp_path / "model.so")],
        input=image.tobytes(), capture_output=True, check=True, timeout=300,
    )  # fmt: skip
    (expected,) = tvm_nnef.evaluate(DIGITS, image)
    np.testing.assert_allclose(np.frombuffer(run.stdout, "float32"), expected[0], atol=1e-5)
