"""Metadata of a compiled library, read and checked without running its code.

Input: the JSON text that :mod:`tvm_nnef.compilation.metadata` wrote. Output: its members, or an
error that says what the library needs and what is here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tvm_nnef.diagnostics import TargetError, error
from tvm_nnef.graph.machine_types import DTYPES
from tvm_nnef.support import host_machine

FORMAT = 2
"""The version of the metadata and of the functions that they describe."""

_AGAIN = "build the library again with this version"


def read_metadata(text: str) -> Mapping[str, Any]:
    """The metadata of a library.

    Raises NnefError for a library of another version of this package, of TVM or of the TVM FFI, and
    for metadata in which something is missing.
    """
    try:
        metadata = json.loads(text)
        _check_versions(metadata)
        _check_members(metadata)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as problem:
        cause = f"no '{problem.args[0]}'" if isinstance(problem, KeyError) else str(problem)
        raise error(f"the metadata of the library are damaged: {cause}", hint=_AGAIN) from None
    found: Mapping[str, Any] = metadata
    return found


def check_machine(metadata: Mapping[str, Any], name: str) -> None:
    """Raises NnefError if this machine cannot run the library of a name with some metadata."""
    if found := mismatch(metadata):
        hint = "build it for this machine ('native'), or load it on a machine of that kind"
        raise error(f"'{name}' is a library for {found}", hint=hint, kind=TargetError)


def mismatch(metadata: Mapping[str, Any]) -> str | None:
    """The machine that a library needs and what this one is; None if this one can run it."""
    target = metadata["target"]
    triple = str(target["triple"])
    needed = (host_machine.architecture_of(triple), host_machine.system_of(triple))
    here = (host_machine.architecture(), host_machine.system())
    if needed[0] != here[0] or (needed[1] and here[1] and needed[1] != here[1]):
        return f"{_machine(*needed)}, this machine is {_machine(*here)}"
    present = host_machine.present_features()
    missing = [] if present is None else sorted(set(map(str, target["features"])) - present)
    if missing:
        lacking = "it" if len(missing) == 1 else "them"
        needed_cpu = f"'{target['cpu']}' with {', '.join(missing)}"
        return f"a CPU such as {needed_cpu}, this CPU does not have {lacking}"
    return None


def _machine(architecture: str, system: str) -> str:
    return f"{architecture} with {system}" if system else architecture


def _check_versions(metadata: Mapping[str, Any]) -> None:
    from tvm_nnef.tvm_support import runtime

    written = metadata["versions"]
    if (found := metadata.get("format")) != FORMAT:
        by = f"tvm_nnef {written['tvm_nnef']} wrote it"
        message = f"the library has the format {found} ({by}), this version reads {FORMAT}"
        raise error(message, hint=_AGAIN)
    for key, title, ours in (
        ("tvm", "TVM", runtime.version()),
        ("tvm_ffi", "TVM FFI", runtime.ffi_version()),
    ):
        if str(written[key]).split(".")[:2] != ours.split(".")[:2]:
            message = f"the library is for {title} {written[key]}, this is {title} {ours}"
            raise error(message, hint=_AGAIN)


def _check_members(metadata: Mapping[str, Any]) -> None:
    """Raises a KeyError, TypeError or ValueError for metadata with wrong or missing members."""
    ports = [*metadata["inputs"], *metadata["outputs"], *metadata["state"]]
    for tensor in (tensor for port in ports for tensor in port.get("items", [port])):
        if not isinstance(tensor["shape"], list) or not isinstance(tensor["name"], str):
            raise ValueError("the shape or the name of a tensor is of another kind")
        if tensor["dtype"] not in DTYPES:
            raise ValueError(f"unknown dtype '{tensor['dtype']}'")
    for check in metadata["checks"]:
        check["condition"], check["message"], check["place"]
    if not all(isinstance(bound, int) for bound in metadata["bounds"].values()):
        raise ValueError("a bound is not a number")
    int(metadata["parameters"])
    if (weights := metadata["weights"]) is not None:
        weights["bytes"], weights["sha256"], list(weights["functions"])
        for tensor in weights["tensors"]:
            tensor["offset"], tensor["shape"], tensor["dtype"]
    target = metadata["target"]
    target["device"], target["triple"], target["cpu"]
    if not isinstance(target["features"], list):
        raise ValueError("the CPU features are not a list")
