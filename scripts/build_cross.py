"""Build a model for several targets: a folder with a library for each, and a manifest of them.

    python scripts/build_cross.py MODEL --targets native cuda:sm_80,sm_90a aarch64 wasm32 -o DIR

``manifest.json`` describes the inputs and outputs, and for each target its files with checksums,
the CPU features that it needs, and how it is loaded. A target that cannot be built here is reported
with its reason, in the manifest too; the others are built. The folder is written whole or not at
all. Exit status 0 if all targets were built, else 1.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # An interrupt while modules are imported leaves no traceback; after that it is reported.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from tvm_nnef.api.building import build, from_nnef
from tvm_nnef.cli import run_reporting
from tvm_nnef.cli.arguments import add_model_options, compose_options, load_options
from tvm_nnef.cli.parser import Parser
from tvm_nnef.compilation.target import NATIVE, TargetRequest, request
from tvm_nnef.diagnostics import NnefError, error
from tvm_nnef.executable.library_file import check_library
from tvm_nnef.executable.runtime import Executable
from tvm_nnef.formats.reading import load_model
from tvm_nnef.storage.manifest import file_digest
from tvm_nnef.storage.output import workspace
from tvm_nnef.storage.write import Content, check_target, is_archive, write_container
from tvm_nnef.tvm_support.build import host_of, target_features, triple_of
from tvm_nnef.tvm_support.compat import Module
from tvm_nnef.vulkan_runtime.launcher import needed_features

FORMAT = 1
"""The version of the manifest."""

MANIFEST = "manifest.json"

SHARED = "tvm_nnef.load(FILE) in Python; ffi::Module::LoadFromFile(FILE) in C++"
ARCHIVE = (
    "an archive of object files: link them with TVM's runtime for WebAssembly, "
    "which TVM's sources contain and its PyPI package does not"
)
"""Ways in which files are loaded."""


@dataclass(frozen=True)
class Wanted:
    """A target as the user wrote it, and the name of its folder."""

    text: str
    folder: str


@dataclass(frozen=True)
class Built:
    """The output for a target: its description in the manifest, its interface, its files."""

    described: dict[str, Any]
    interface: dict[str, Any]
    files: dict[str, Path]


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_model_options(parser)
    parser.add_argument(
        "--targets", nargs="+", default=[NATIVE], metavar="TARGET", help="the targets to build for"
    )
    parser.add_argument("--output", "-o", required=True, metavar="DIR", help="the folder to write")
    parser.add_argument(
        "--overwrite", action="store_true", help="replace a folder that this program did not write"
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Build, report, and return the exit status."""
    options = make_parser().parse_args(arguments)
    return run_reporting(lambda: run(options))


def run(options: argparse.Namespace) -> int:
    """Build all targets, write the folder, and return the exit status."""
    wanted = list(folders(options.targets))
    if is_archive(options.output):
        raise error("the output is a folder", hint="name a folder", file=options.output)
    check_target(options.output, overwrite=options.overwrite)
    model = load_model(options.model, **load_options(options))
    module = from_nnef(model, **compose_options(options))
    built: list[Built] = []
    failed: dict[str, str] = {}
    with workspace(Path(options.output).resolve().parent) as space:
        for number, each in enumerate(wanted, 1):
            print(f"target {number} of {len(wanted)}: {each.text}", file=sys.stderr, flush=True)
            try:
                built.append(build_target(module, each, space))
            except (NnefError, RuntimeError) as problem:
                failed[each.text] = reason(problem)
                print(f"{each.text}: {problem}", file=sys.stderr)
        if built:
            name = Path(options.model).resolve().name
            contents: dict[str, Content] = {MANIFEST: manifest(name, built, failed)}
            for each in built:
                contents |= {name: file.read_bytes for name, file in each.files.items()}
            write_container(options.output, contents, overwrite=options.overwrite)
    if not built:
        raise error("nothing was built", hint="each target is reported above, with its reason")
    for each in built:
        print(f"{each.described['target']}: {', '.join(each.files)}")
    print(f"wrote {options.output}")
    return 1 if failed else 0


def folders(targets: Sequence[str]) -> Iterator[Wanted]:
    """The targets with names of folders, which differ; NnefError for a target that is repeated."""
    taken = set[str]()
    for number, text in enumerate(targets):
        if text in targets[:number]:
            raise error(f"the target '{text}' is given twice", hint="give each target once")
        folder = re.sub(r"[^\w.+-]+", "-", text).strip("-.")[:60] or "target"
        while folder.lower() in taken:
            folder += "-"
        taken.add(folder.lower())
        yield Wanted(text, folder)


def build_target(module: Module, wanted: Wanted, space: Path) -> Built:
    """Build a module for a target, into a folder; NnefError says why it cannot be."""
    requested = request(wanted.text)
    triple = triple_of(requested.target)
    suffix = "tar" if triple.startswith("wasm") else "so"
    folder = space / wanted.folder
    folder.mkdir()
    check_library(folder / f"model.{suffix}", triple=triple)
    executable = build(module, wanted.text)
    executable.export(folder / f"model.{suffix}")
    files = {f"{wanted.folder}/{file.name}": file for file in sorted(folder.iterdir())}
    described = {
        **description(requested, wanted.text, executable),
        "load": ARCHIVE if suffix == "tar" else SHARED,
        "files": [
            {"name": name, "bytes": file.stat().st_size, "sha256": file_digest(file)}
            for name, file in files.items()
        ],
    }
    names = ("inputs", "outputs", "parameters", "state", "bounds", "versions")
    return Built(described, {name: executable.metadata[name] for name in names}, files)


def reason(problem: NnefError | RuntimeError) -> str:
    """Why a target cannot be built: in one line, without paths of this machine."""
    if isinstance(problem, NnefError):
        return problem.diagnostics[0].message
    return f"internal error: {(str(problem).strip().splitlines() or [type(problem).__name__])[-1]}"


def description(requested: TargetRequest, text: str, executable: Executable) -> dict[str, Any]:
    """The machine that a library is for, as the manifest describes it."""
    host = host_of(requested.target)
    triple, features = target_features(host)
    described = executable.metadata.get("target", {})
    needed, source = described.get("features"), executable.compiled
    return {
        "target": text,
        "device": str(requested.target.kind.name),
        "triple": triple,
        "cpu": str(host.attrs.get("mcpu", "generic")),
        "cpu_features": sorted(features) if needed is None else list(needed),
        "cuda_architectures": list(requested.cuda_architectures),
        "code_forms": described.get("code_forms", []),
        "vulkan_features": needed_features(source.library.mod) if source else [],
    }


def manifest(model: str, built: Sequence[Built], failed: dict[str, str]) -> bytes:
    """The manifest of what was built, as JSON."""
    content = {
        "format": FORMAT,
        "model": model,
        **built[0].interface,
        "libraries": [each.described for each in built],
        "failed": [{"target": target, "reason": why} for target, why in failed.items()],
    }
    return json.dumps(content, indent=1).encode() + b"\n"


if __name__ == "__main__":
    sys.exit(main())
