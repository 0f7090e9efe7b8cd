"""Write the wheel ``tvm-nnef-runtime``: it loads, runs and profiles libraries, without a compiler.

    pip wheel --no-deps -w dist .
    python scripts/build_runtime.py dist/tvm_nnef-*.whl -o dist

It has the code of ``tvm-nnef`` and TVM's runtime libraries, and is installed instead of that one.
TVM is the one that is installed here, or for another machine one of its wheels (``--tvm``).
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import re
import sys
import zipfile
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path

NAME = "tvm-nnef-runtime"

REQUIRED = ("apache-tvm-ffi", "ml-dtypes", "numpy")
"""The requirements of tvm-nnef that this wheel keeps."""

FOLDER = "tvm_nnef/tvm_support/bundled_tvm"
"""Where the wheel has TVM's files; ``tvm_support/runtime.py`` looks for them there."""

TAKEN = re.compile(
    r"(lib/(lib)?tvm_runtime(_cuda|_extra)?\.\w+|libinfo\.py|_version\.py|LICENSE|NOTICE)"
)
"""The files of TVM that a runtime consists of."""


def main(arguments: list[str] | None = None) -> int:
    """Write the wheel, and print its path."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel", type=Path, help="a wheel of tvm-nnef")
    parser.add_argument("--tvm", type=Path, help="a wheel of apache-tvm")
    parser.add_argument("-o", "--output", type=Path, default=Path("dist"), help="a folder")
    options = parser.parse_args(arguments)
    tvm = installed_tvm() if options.tvm is None else content(options.tvm)
    (tags,) = (text for name, text in tvm.items() if name.endswith(".dist-info/WHEEL"))
    lines = [line for line in tags.decode().splitlines() if line.startswith("Tag: ")]
    files = {**runtime_files(content(options.wheel), lines), **bundled(tvm)}
    version = options.wheel.name.split("-")[1]
    tag = ".".join(line.rpartition("-")[2] for line in lines)
    path = options.output / f"tvm_nnef_runtime-{version}-py3-none-{tag}.whl"
    options.output.mkdir(parents=True, exist_ok=True)
    write(path, files)
    print(path)
    return 0


def content(wheel: Path) -> dict[str, bytes]:
    """Return the files of a wheel that a runtime may need."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if is_needed(name)}


def installed_tvm() -> dict[str, bytes]:
    """Return the files of the installed TVM that a runtime may need."""
    return {
        file.as_posix(): Path(str(file.locate())).read_bytes()
        for file in metadata.files("apache-tvm") or ()
        if is_needed(file.as_posix())
    }


def is_needed(name: str) -> bool:
    """Whether a file is of tvm-nnef, describes a wheel, or is one of TVM's runtime."""
    return not name.startswith("tvm/") or bool(TAKEN.fullmatch(name.removeprefix("tvm/")))


def bundled(tvm: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return TVM's files at their place in the wheel."""
    files = ((name.removeprefix("tvm/"), data) for name, data in tvm.items())
    return {f"{FOLDER}/{name}": data for name, data in files if TAKEN.fullmatch(name)}


def runtime_files(wheel: Mapping[str, bytes], tags: Iterable[str]) -> dict[str, bytes]:
    """Return the files of tvm-nnef under the name of this wheel, for the platforms of TVM."""
    files = {}
    for name, data in wheel.items():
        if name.endswith(".dist-info/RECORD"):
            continue
        if name.endswith(".dist-info/METADATA"):
            data = described(data.decode()).encode()
        elif name.endswith(".dist-info/WHEEL"):
            kept = [line for line in data.decode().splitlines() if line.partition(":")[0] in _KEPT]
            data = "\n".join([*kept, "Root-Is-Purelib: false", *tags, ""]).encode()
        files[re.sub(r"^tvm_nnef(-[^/]+\.dist-info/)", r"tvm_nnef_runtime\1", name)] = data
    return files


_KEPT = ("Wheel-Version", "Generator")


def described(text: str) -> str:
    """Return the metadata of tvm-nnef with the name and the requirements of this wheel."""
    head, separator, readme = text.partition("\n\n")
    lines = ["Name: " + NAME if line.startswith("Name: ") else line for line in head.splitlines()]
    return "\n".join(line for line in lines if is_kept(line)) + separator + readme


def is_kept(line: str) -> bool:
    """Whether a line of the metadata holds for this wheel as well."""
    key, _, value = line.partition(": ")
    is_required = re.split(r"[<>=;! ]", value)[0] in REQUIRED
    return key != "Provides-Extra" and (key != "Requires-Dist" or is_required)


def write(path: Path, files: Mapping[str, bytes]) -> None:
    """Write a wheel, with the list of its files."""
    record = next(name for name in files if name.endswith("/METADATA"))
    record = record.removesuffix("METADATA") + "RECORD"
    listed = [f"{name},sha256={digest(data)},{len(data)}" for name, data in files.items()]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
        archive.writestr(record, "\n".join([*listed, f"{record},,", ""]))


def digest(data: bytes) -> str:
    """Return the digest of a file as a wheel lists it."""
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


if __name__ == "__main__":
    sys.exit(main())
