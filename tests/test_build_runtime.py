"""``scripts/build_runtime.py``: a wheel of the runtime. ``.ci/distributions`` installs one."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "build_runtime.py"

OURS = {
    "tvm_nnef/__init__.py": "code",
    "tvm_nnef-1.2.dist-info/METADATA": "Metadata-Version: 2.4\nName: tvm-nnef\nVersion: 1.2\n"
    "Requires-Dist: numpy>=1.26\nRequires-Dist: apache-tvm<0.28,>=0.27\n"
    "Requires-Dist: apache-tvm-ffi==0.1.14\nProvides-Extra: onnx\n"
    'Requires-Dist: onnx>=1.19; extra == "onnx"\n\nName: readme\n',
    "tvm_nnef-1.2.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n"
    "Tag: py3-none-any\n",
    "tvm_nnef-1.2.dist-info/entry_points.txt": "[console_scripts]",
    "tvm_nnef-1.2.dist-info/RECORD": "old",
}
TVM = {
    "tvm/lib/libtvm_runtime.so": "runtime",
    "tvm/lib/libtvm_runtime_cuda.so": "cuda",
    "tvm/lib/libtvm_compiler.so": "compiler",
    "tvm/libinfo.py": "paths",
    "tvm/relax/__init__.py": "relax",
    "apache_tvm-0.27.dist-info/WHEEL": "Tag: py3-none-linux_a\nTag: py3-none-linux_b\n",
}


def wheel(path: Path, files: Mapping[str, str]) -> Path:
    """A wheel with these files."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def test_the_wheel_has_the_code_and_the_runtime_of_a_wheel_of_tvm(
    imported: Callable[[Path], Any], tmp_path: Path
) -> None:
    ours = wheel(tmp_path / "tvm_nnef-1.2-py3-none-any.whl", OURS)
    tvm = wheel(tmp_path / "apache_tvm-0.27-py3-none-linux_b.whl", TVM)
    output = tmp_path / "dist"
    assert imported(SCRIPT).main([str(ours), "--tvm", str(tvm), "-o", str(output)]) == 0
    (written,) = output.iterdir()
    assert written.name == "tvm_nnef_runtime-1.2-py3-none-linux_a.linux_b.whl"
    with zipfile.ZipFile(written) as archive:
        files = {name: archive.read(name).decode() for name in archive.namelist()}
    bundled, described = "tvm_nnef/tvm_support/bundled_tvm", "tvm_nnef_runtime-1.2.dist-info"
    record = files.pop(f"{described}/RECORD")
    assert {line.split(",")[0] for line in record.splitlines()} == {*files, f"{described}/RECORD"}
    # The digest of "code", by hashlib.
    assert "tvm_nnef/__init__.py,sha256=VpTQii5T_8rgwxA-Wtb2B2q9lg6x-KVldwQLwQKPcCs,4" in record
    assert files == {
        "tvm_nnef/__init__.py": "code",
        f"{bundled}/lib/libtvm_runtime.so": "runtime",
        f"{bundled}/lib/libtvm_runtime_cuda.so": "cuda",
        f"{bundled}/libinfo.py": "paths",
        f"{described}/METADATA": "Metadata-Version: 2.4\nName: tvm-nnef-runtime\nVersion: 1.2\n"
        "Requires-Dist: numpy>=1.26\nRequires-Dist: apache-tvm-ffi==0.1.14\n\nName: readme\n",
        f"{described}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: false\n"
        "Tag: py3-none-linux_a\nTag: py3-none-linux_b\n",
        f"{described}/entry_points.txt": "[console_scripts]",
    }
