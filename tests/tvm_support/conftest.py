"""A driver of CUDA without a GPU, and compilers that are shell scripts."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import tvm


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """The environment of a process that loads the driver of these tests.

    CUDA's own runtime lies where PyPI packages put it, before that of a package that is installed.
    """
    runtime = Path(tvm.__file__).parent / "lib" / "libtvm_runtime_cuda.so"
    if not runtime.exists() or shutil.which("gcc") is None:
        pytest.skip("needs gcc, and TVM's runtime for CUDA")
    folder = tmp_path_factory.mktemp("driver")
    source = Path(__file__).with_name("cuda_without_gpu.c")
    libraries = folder / "nvidia" / "cu13" / "lib"
    libraries.mkdir(parents=True)
    for name, place in (("libcuda.so.1", folder), ("libcudart.so.13", libraries)):
        (place / "versions").write_text(f"{name} {{ global: *; }};")
        options = [f"-Wl,-soname,{name}"]
        options += ["-Wl,--version-script=versions"] if "cudart" in name else []
        command = ["gcc", "-shared", "-fPIC", "-w", "-o", name, *options, str(source)]
        subprocess.run(command, cwd=place, check=True)
    python = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "LD_LIBRARY_PATH": f"{folder}:{libraries}", "PYTHONPATH": python}


@pytest.fixture
def nvcc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Makes $NVCC a script that appends its arguments to the file that is returned."""

    def named(script: str) -> Path:
        log, path = tmp_path / "arguments", tmp_path / "nvcc"
        path.write_text(f'#!/bin/sh\nprintf "%s " "$@" >> "{log}"\n{script}\n')
        path.chmod(0o755)
        monkeypatch.setenv("NVCC", str(path))
        return log

    return named
