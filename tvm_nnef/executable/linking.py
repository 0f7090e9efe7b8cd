"""Object files in, a shared library out: by a compiler or linker for the machine of the target."""

from __future__ import annotations

import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tvm_nnef.diagnostics import NnefError, error

_COMPILERS = ("c++", "g++", "clang++", "cc", "gcc", "clang")
"""Compilers that link; in this order, the first one that is installed is used."""

_ALIASES: Mapping[str, str] = {
    **dict.fromkeys(("amd64", "x64"), "x86_64"),
    **dict.fromkeys(("i386", "i486", "i586"), "i686"),
    "arm64": "aarch64",
    **dict.fromkeys(("armv6", "armv6l", "armv7", "armv7a", "armv7l", "armv8l", "thumbv7"), "arm"),
    "ppc64le": "powerpc64le",
    "wasm": "wasm32",
}
"""Other names of architectures; the values are those that compilers have in their names."""

_ELF_MACHINES: Mapping[tuple[int, int], str] = {
    (1, 3): "i686",
    (2, 62): "x86_64",
    (1, 40): "arm",
    (2, 183): "aarch64",
    (1, 243): "riscv32",
    (2, 243): "riscv64",
    (2, 21): "powerpc64le",
    (2, 22): "s390x",
}
"""Architectures by class (1: 32 bits, 2: 64 bits) and machine in the header of an ELF file."""

_SYSTEMS: Mapping[str, str] = {
    **{name: name for name in ("linux", "freebsd", "elf", "eabi", "wasi", "emscripten")},
    **dict.fromkeys(("darwin", "macos"), "darwin"),
    **dict.fromkeys(("windows", "win32", "mingw"), "windows"),
}
"""Operating systems by how the part of a target triple begins that names them."""

_ENVIRONMENTS = ("gnu", "musl", "eabi", "android")
"""Prefixes of the last part of a target triple that names a C library or an ABI."""

_VENDORS = ("", "unknown-", "none-")
"""The possible vendors, before the operating system in the name of a cross compiler."""

_PATIENCE = 60
"""Seconds after which a compiler that is asked for its machine is taken not to answer."""


def normalized_triple(triple: str) -> str:
    """A target triple with a vendor and an operating system, as LLVM needs it.

    LLVM knows the parts of a triple by their position: of ``armv7l-linux-gnueabihf`` it takes
    ``linux`` for a vendor, and generates code for another ABI.
    """
    parts = triple.split("-")
    if 1 < len(parts) < 4 and parts[1].startswith(tuple(_SYSTEMS)):
        parts.insert(1, "unknown")
    if len(parts) == 3 and parts[2].startswith(_ENVIRONMENTS):
        parts.insert(2, "unknown")
    return "-".join(parts)


@dataclass(frozen=True, slots=True)
class Machine:
    """The platform of a library: an architecture, and an operating system with its ABI."""

    architecture: str
    system: str

    @classmethod
    def of(cls, triple: str) -> Machine:
        """The machine of a target triple, with or without a vendor."""
        name, *rest = normalized_triple(triple.strip().lower()).split("-")
        system = "-".join(part for part in rest[1:] if part != "unknown")
        return cls(_ALIASES.get(name, name), system)

    @classmethod
    def host(cls) -> Machine:
        """This machine."""
        triple = str(sysconfig.get_config_var("MULTIARCH") or "")
        return cls.of(triple if "-" in triple else f"{platform.machine()}-{sys.platform}")

    def __str__(self) -> str:
        return f"{self.architecture}-{self.system}" if self.system else self.architecture

    @property
    def operating_system(self) -> str:
        """The operating system, nothing if it is not known."""
        known = (name for begin, name in _SYSTEMS.items() if self.system.startswith(begin))
        return next(known, "")

    def fits(self, other: Machine) -> bool:
        """Whether a linker for another machine works for this one; C libraries may differ."""
        systems = {self.operating_system, other.operating_system}
        return self.architecture == other.architecture and len(systems - {""}) < 2

    def compilers(self) -> list[str]:
        """The names of compilers for this machine, best first."""
        if self.fits(Machine.host()):
            return [*_COMPILERS]
        names = [f"{self.architecture}-{vendor}{self.system}" for vendor in _VENDORS]
        return [f"{name}-{compiler}" for name in names for compiler in _COMPILERS]


def find_linker(triple: str | None = None) -> list[str]:
    """The command that links a shared library, without the names of files.

    ``triple`` is the target triple of the library, this machine's by default. The command is
    ``$CXX`` or ``$CC`` if that compiles for such a machine, or else a compiler or linker on the
    ``PATH``, or the PyPI package ``ziglang``. Raises :class:`NnefError` if there is none.
    """
    machine = Machine.host() if triple is None else Machine.of(triple)
    if machine.architecture.startswith("wasm"):
        hint = "write an archive of object files ('model.tar'), which is linked with TVM's runtime"
        raise error("WebAssembly has no shared libraries that TVM loads", hint=hint)
    others = []
    for variable in ("CXX", "CC"):
        words = _words(os.environ.get(variable, ""))
        if words and shutil.which(words[0]) is None:
            hint = f"install it, or unset {variable}"
            raise error(f"the compiler '{words[0]}' that ${variable} names is missing", hint=hint)
        if words:
            compiled = _machine_of(words)
            if compiled is None or machine.fits(compiled):
                return _shared(words, machine)
            others.append(f"'{words[0]}' in ${variable} compiles for {compiled}")
    for command in _installed(machine):
        return command
    raise _missing(machine, others)


def link(objects: Sequence[Path], library: Path, triple: str | None = None) -> None:
    """Link object files to a shared library, for this machine or that of a target triple.

    Raises :class:`NnefError` if there is no linker, if it fails, or if it links for another machine
    than that of the object files.
    """
    command = find_linker(triple)
    expected = {_architecture(each) for each in objects} - {""}
    wanted = (Machine.host() if triple is None else Machine.of(triple)).architecture
    if found := sorted(expected - {wanted} if wanted in _ELF_MACHINES.values() else ()):
        message = f"object files for {found[0]} cannot be linked to a library for {wanted}"
        raise error(message, hint="link and load them on a machine of their kind")
    run = _run([*command, "-o", str(library), *map(str, objects)], library.parent)
    if run.returncode:
        lines = (run.stderr or run.stdout).decode(errors="replace").strip().splitlines()
        raise _failed(command, lines[0] if lines else f"exit status {run.returncode}")
    made = _architecture(library)
    if expected and made not in expected:
        reason = f"the result is not a library for {wanted}" + (f" but for {made}" if made else "")
        raise _failed(command, reason)


def _run(command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[bytes]:
    """Return the messages of a linker, whose temporary files are in a folder."""
    environment = {**os.environ, "TMPDIR": str(folder)}
    try:
        return subprocess.run(command, env=environment, capture_output=True, check=False)
    except OSError as cause:
        raise _failed(command, cause.strerror or str(cause)) from None


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return [text]


def _machine_of(compiler: Sequence[str]) -> Machine | None:
    """The machine that a compiler compiles for, None if it does not say."""
    try:
        run = subprocess.run(
            [*compiler, "-dumpmachine"], capture_output=True, check=False, timeout=_PATIENCE
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    words = run.stdout.decode(errors="replace").split()
    return Machine.of(words[0]) if not run.returncode and len(words) == 1 else None


def _installed(machine: Machine) -> Iterator[list[str]]:
    """The commands that link for a machine and are installed, best first."""
    here = machine.fits(Machine.host())
    for found in filter(None, map(shutil.which, machine.compilers())):
        yield _shared([found], machine)
    zig = _zig(machine, here=here)
    # Only a compiler adds its helper functions; CPUs of 32 bits divide integers of 64 bits by one.
    is_64_bit = machine.architecture in (
        name for (bits, _), name in _ELF_MACHINES.items() if bits > 1
    )
    is_elf = machine.operating_system in ("linux", "freebsd", "elf")
    linkers = ("ld.lld", "ld" if here else f"{machine}-ld") if is_elf and is_64_bit else ()
    yield from [] if here else zig
    for found in filter(None, map(shutil.which, linkers)):
        yield [found, "-shared"]
    yield from zig if here else []


def _zig(machine: Machine, *, here: bool) -> list[list[str]]:
    """The command of the PyPI package ``ziglang``, if it is installed."""
    if importlib.util.find_spec("ziglang") is None:
        return []
    target = [] if here else ["-target", str(machine)]
    return [_shared([sys.executable, "-m", "ziglang", "cc", *target], machine)]


def _shared(command: list[str], machine: Machine) -> list[str]:
    undefined = ["-undefined", "dynamic_lookup"] if machine.operating_system == "darwin" else []
    return [*command, "-shared", "-fPIC", *undefined]


def _architecture(file: Path) -> str:
    """The architecture of an ELF file; a number for an unknown one, nothing for other files."""
    with file.open("rb") as stream:
        header = stream.read(20)
    if len(header) < 20 or not header.startswith(b"\x7fELF"):
        return ""
    number = int.from_bytes(header[18:20], "little" if header[5] == 1 else "big")
    return _ELF_MACHINES.get((header[4], number), f"ELF machine {number}")


def _missing(machine: Machine, others: Sequence[str]) -> NnefError:
    here = machine.fits(Machine.host())
    package = "g++" if here else f"g++-{str(machine).replace('_', '-')}"
    what = "there is no C++ compiler" if here else f"there is no compiler or linker for {machine}"
    reason = "".join(f"; {other}" for other in others)
    return error(
        f"a shared library cannot be linked: {what}{reason}",
        hint=f"install one ('apt install {package}', 'pip install ziglang') or name it in $CXX; "
        "a library whose name ends in '.tar' is linked where it is loaded",
    )


def _failed(command: Sequence[str], reason: str) -> NnefError:
    hint = "check the compiler, the free disk space and limits on file sizes"
    return error(f"linking with '{command[0]}' fails: {reason}", hint=hint)
