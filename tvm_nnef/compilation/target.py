"""Names of targets as TVM targets: a name, text, JSON or a Target in, a Target out.

Knows how the host CPU is found. Compiles nothing.
"""

from __future__ import annotations

import difflib
import functools
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm

from tvm_nnef.diagnostics import NnefError, TargetError, did_you_mean, error, raised_as
from tvm_nnef.executable.linking import normalized_triple
from tvm_nnef.tvm_support import build
from tvm_nnef.tvm_support.compat import Target

NATIVE = "native"

SHORT_NAMES: Mapping[str, Mapping[str, Any]] = {
    "x86-64-v2": {"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "x86-64-v2"},
    "x86-64-v3": {"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "x86-64-v3"},
    "x86-64-v4": {"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "x86-64-v4"},
    "aarch64": {"kind": "llvm", "mtriple": "aarch64-linux-gnu"},
    "armv7": {
        "kind": "llvm",
        "mtriple": "armv7l-linux-gnueabihf",
        "mfloat-abi": "hard",
        "mattr": ["+neon"],
    },
    "powerpc64le": {
        "kind": "llvm",
        "mtriple": "powerpc64le-linux-gnu",
        "mcpu": "pwr8",
        "vector-width": 128,
    },
    "riscv64": {
        "kind": "llvm",
        "mtriple": "riscv64-linux-gnu",
        "mcpu": "generic-rv64",
        "mabi": "lp64d",
        "mattr": ["+m", "+a", "+f", "+d", "+c"],
    },
    "wasm32": {
        "kind": "llvm",
        "mtriple": "wasm32-unknown-unknown",
        "mattr": ["+simd128"],
        "vector-width": 128,
    },
    "cuda": {"kind": "cuda"},
    "vulkan": {"kind": "vulkan"},
}
"""The short names of targets that are not the host; see :data:`NATIVE`."""


OLDEST_GPU = "sm_75"
"""The architecture of CUDA on a machine without a GPU: newer ones run it too."""


@dataclass(frozen=True, slots=True)
class TargetRequest:
    """A target, and what else a user asks for with its name.

    ``cuda_architectures`` are those that a library for CUDA must have code for, oldest first
    (``("sm_80", "sm_90a")``): the words after ``cuda:``. Kernels are scheduled for the first one,
    which is that of the ``target``.
    """

    target: Target
    cuda_architectures: tuple[str, ...] = ()


@raised_as(TargetError)
def request(target: object = NATIVE) -> TargetRequest:
    """Return the meaning of a target of :func:`resolve`, with all architectures that it names."""
    if isinstance(target, str) and target.strip().startswith("cuda:"):
        architectures = _cuda_architectures(target)
        return TargetRequest(resolve({"kind": "cuda", "arch": architectures[0]}), architectures)
    return TargetRequest(resolve(target))


@raised_as(TargetError)
def resolve(target: object = NATIVE) -> Target:
    """The TVM target that is meant.

    ``target`` is ``"native"`` (the host CPU with its own instruction set), one of
    :data:`SHORT_NAMES`, the name of a kind or a tag of TVM, text such as ``llvm -mcpu=znver4``, a
    JSON object (as text or as a mapping), or a ``tvm.target.Target``. A colon after the short name
    of a CPU adds the name of a model and features (``aarch64:cortex-a76``, ``riscv64:+v,+zfh``),
    one after ``cuda`` adds architectures (``cuda:sm_80,sm_90a``).

    Raises NnefError for a target or an option that TVM does not know, and for an architecture, a
    CPU or a CPU feature that LLVM does not know.
    """
    if isinstance(target, tvm.target.Target):
        for each in filter(None, (target, target.host)):
            _check_llvm({"kind": str(each.kind.name), **dict(each.attrs)}, str(target))
        description = json.loads(str(target))
        normalized = _normalized(description)
        return target if normalized == description else tvm.target.Target(normalized)
    if isinstance(target, Mapping):
        return _made(dict(target), json.dumps(dict(target), default=repr))
    if not isinstance(target, str):
        raise error(
            f"a target cannot be of type '{type(target).__name__}'",
            hint="give a name, a JSON object or a tvm.target.Target",
        )
    name = target.strip()
    if name == NATIVE:
        return native()
    if name in SHORT_NAMES:
        return _made(dict(SHORT_NAMES[name]), name)
    if name.startswith("cuda:"):
        return request(name).target
    if name.partition(":")[0] in SHORT_NAMES:
        return _made(_with_options(name), name)
    if name.startswith("{"):
        return _made(_parsed_json(name), name)
    if " " in name:
        return _made(_parsed_words(name), name)
    return _made(name, name)


@functools.cache
def native() -> Target:
    """The host CPU: its model, and the instructions that it really has.

    A hypervisor may hide instructions that the model of the CPU has, and LLVM may not know a new
    model, so the differences are spelled out.
    """
    cpu, triple = build.host_cpu()
    description: dict[str, Any] = {"kind": "llvm", "mtriple": triple, "mcpu": cpu}
    differences = build.host_feature_differences(description)
    if differences:
        description["mattr"] = differences
    return tvm.target.Target(description)


def _made(description: str | dict[str, Any], text: str) -> Target:
    if isinstance(description, dict) and description.get("kind") == "cuda":
        description.setdefault("arch", build.cuda_arch() or OLDEST_GPU)
    for each in (description, description.get("host")) if isinstance(description, dict) else ():
        if isinstance(each, Mapping):
            _check_llvm(each, text)
    try:
        return tvm.target.Target(_normalized(description))
    except (ValueError, TypeError, RuntimeError) as problem:
        reason = str(problem).split(" Target creation from")[0].strip().splitlines()[0]
        raise _unknown(text, reason) from None


def _normalized(description: Any) -> Any:
    """The description of a target whose triples have all parts that LLVM needs."""
    if not isinstance(description, Mapping):
        return description
    made = {**description}
    if isinstance(made.get("mtriple"), str):
        made["mtriple"] = normalized_triple(made["mtriple"])
    if "host" in made:
        made["host"] = _normalized(made["host"])
    return made


def _cuda_architectures(text: str) -> tuple[str, ...]:
    """The architectures of ``cuda:sm_80,sm_90a``, oldest first."""
    names = text.strip().removeprefix("cuda:").split(",")
    for name in names:
        if not re.fullmatch(r"sm_[1-9]\d{1,2}[af]?", name):
            hint = "architectures are written sm_80, with commas between them: cuda:sm_80,sm_90a"
            message = f"unknown target '{text.strip()}': CUDA has no architecture '{name}'"
            raise error(message, hint=hint)
    return tuple(sorted(set(names), key=lambda name: (int(name[3:].rstrip("af")), name)))


def _with_options(text: str) -> dict[str, Any]:
    """The description of a short name, a colon, and a CPU model and features."""
    name, _, options = text.partition(":")
    description = dict(SHORT_NAMES[name])
    words = options.split(",")
    features = [word for word in words if word[:1] in ("+", "-")]
    models = [word for word in words if word not in features]
    if description["kind"] != "llvm" or len(models) > 1 or "" in words:
        reason = f"'{options}' is not a CPU model and features"
        raise error(
            f"unknown target '{text}': {reason}",
            hint="write aarch64:cortex-a76, riscv64:+v or armv7:cortex-a15,+vfp4",
        )
    if models:
        description["mcpu"] = models[0]
    if features:
        description["mattr"] = [*description.get("mattr", ()), *features]
    return description


_LLVM_OPTIONS = {
    **dict.fromkeys(("mtriple", "mcpu", "mabi", "mfloat-abi", "jit"), str),
    **dict.fromkeys(("mattr", "cl-opt"), list),
}
"""The options of a target that LLVM reads by itself, and what they are."""


def _check_llvm(options: Mapping[str, Any], text: str) -> None:
    """Raises NnefError that names the option of a target of LLVM which it does not take."""
    if options.get("kind") != "llvm":
        return
    given = {key: _plain(options[key]) for key in _LLVM_OPTIONS if key in options}
    features = given.get("mattr", [])
    if not all(isinstance(given[key], kind) for key, kind in _LLVM_OPTIONS.items() if key in given):
        return  # TVM says what is wrong.
    complaint = _complaint(given)
    signed = all(feature[:1] in ("+", "-") for feature in features)
    if not complaint and signed:
        return
    base = {key: given[key] for key in ("mtriple",) if key in given}
    if _complaint(base):
        name, known = given["mtriple"].split("-")[0], build.llvm_architectures()
        raise _unknown_name(text, "architecture", name, known)
    cpu, cpus = given.get("mcpu"), build.llvm_cpus(_json(base))
    if cpu is not None and cpu not in cpus:
        raise _unknown_name(text, "CPU", cpu, cpus)
    if not signed:
        raise error(f"unknown target '{text}'", hint="features are written +avx2 or -avx2")
    for feature in features:
        if _complaint({**base, "mattr": [feature]}):
            raise _unknown_name(text, "CPU feature", feature[1:], ())
    raise _unknown(text, complaint.splitlines()[-1])


def _complaint(options: Mapping[str, Any]) -> str:
    return build.llvm_complaint(_json(options))


def _json(options: Mapping[str, Any]) -> str:
    return json.dumps({"kind": "llvm", **options})


def _plain(value: Any) -> Any:
    """An option of a target as JSON has it; TVM has its own lists."""
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    return [str(each) for each in value] if is_list else value


def _unknown_name(text: str, kind: str, name: str, known: Collection[str]) -> NnefError:
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.3)
    hint = f"the nearest names are {', '.join(near)}" if near else "see 'llc -mattr=help' of LLVM"
    return error(f"unknown target '{text}': LLVM knows no {kind} '{name}'", hint=hint)


_HABITS = {
    "cpu": "'native' is the CPU of this machine",
    "gpu": "give 'cuda' or 'vulkan'",
    "x86": "give 'native', or 'x86-64-v2', 'x86-64-v3' or 'x86-64-v4'",
    "arm": "give 'aarch64' or 'armv7'",
}
"""Names of targets in other compilers."""


def _unknown(text: str, reason: str) -> NnefError:
    kinds = [str(kind) for kind in tvm.target.Target.list_kinds()]
    names = [NATIVE, *SHORT_NAMES, *kinds]
    known = f"give one of {', '.join([NATIVE, *SHORT_NAMES])}, or a target of TVM"
    first = text.split()[0] if text.split() else ""
    hint = _HABITS.get(first)
    if hint is None and first not in names:
        hint = did_you_mean(first, names)
    return error(f"unknown target '{text}': {reason}", hint=hint or known)


def _parsed_json(text: str) -> dict[str, Any]:
    try:
        parsed = json.loads(text)
    except json.JSONDecodeError as problem:
        raise _unknown(text, f"no JSON object ({problem})") from None
    return dict(parsed)


def _parsed_words(text: str) -> dict[str, Any]:
    """``kind -key=value ...``, which TVM itself no longer reads."""
    kind, *options = text.split()
    description: dict[str, Any] = {"kind": kind}
    for option in options:
        key, separator, value = option.lstrip("-").partition("=")
        if not option.startswith("-") or not key:
            raise _unknown(text, f"'{option}' is not an option; options are written -key=value")
        description[key] = _value(key, value) if separator else True
    return description


def _value(key: str, text: str) -> object:
    if key in ("mattr", "keys", "libs"):
        return text.split(",")
    return int(text) if text.lstrip("-").isdigit() else text
