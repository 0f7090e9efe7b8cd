"""The public face: names that are there, cheap to import, and hidden by nothing."""

from __future__ import annotations

import ast
import functools
import graphlib
import importlib
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tvm_nnef


def test_no_module_hides_a_public_name() -> None:
    """Importing a submodule binds its name in the package, before a function of that name."""
    modules = {module.name for module in pkgutil.iter_modules(tvm_nnef.__path__)}
    assert modules & set(tvm_nnef.__all__) == set()


@pytest.mark.parametrize("name", tvm_nnef.__all__)
def test_public_names_are_there_and_documented(name: str) -> None:
    assert getattr(tvm_nnef, name).__doc__
    assert name in dir(tvm_nnef)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ["Executable", "build", "compose", "evaluate", "load"])
def test_any_public_name_may_be_the_first_one_used(name: str) -> None:
    subprocess.run([sys.executable, "-c", f"import tvm_nnef; tvm_nnef.{name}"], check=True)


CHECKOUT = """
import tvm_nnef.schedules, tvm_nnef.converters.tile
from importlib.util import find_spec
print(tvm_nnef.schedules.__file__, tvm_nnef.converters.tile.__file__, sep="\\n")
other = [name for name in ("docs", "scripts", "tests") if find_spec(f"tvm_nnef.{name}")]
assert not other, f"other folders of the checkout are packages: {other}"
"""


def test_a_checkout_works_where_nothing_is_installed() -> None:
    """Python finds the package in the current folder before an installed one."""
    root = Path(__file__).resolve().parent.parent
    command = [sys.executable, "-c", CHECKOUT]
    found = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    assert list(map(Path, found.splitlines())) == [
        root / "schedules" / "__init__.py",
        root / "converters" / "tile" / "__init__.py",
    ]


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="frobnicate"):
        _ = tvm_nnef.frobnicate


def test_importing_needs_neither_tvm_nor_numpy() -> None:
    code = (
        "import sys, tvm_nnef; tvm_nnef.check, tvm_nnef.load_model; "
        "sys.exit(any(name in sys.modules for name in ('tvm', 'numpy', 'lark')))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_loading_a_library_needs_no_schedules() -> None:
    code = "import sys, tvm_nnef; tvm_nnef.load; sys.exit('tvm_nnef.schedules' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_outer_folders_are_packages_of_ours() -> None:
    for name in ("schedules", "converters"):
        assert importlib.import_module(f"tvm_nnef.{name}").__doc__


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports for type checking and imports inside of functions count as well."""
    assert circles(imported_modules()) == []


def imported_modules() -> dict[str, set[str]]:
    """The modules of the package, and which of them each imports."""
    files = source_files()
    found: dict[str, set[str]] = {}
    for name in files:
        imports = set()
        for node in nodes_of(name):
            if isinstance(node, ast.Import):
                imports |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0 and node.module, f"{name} has a relative import"
                inner = {f"{node.module}.{alias.name}" for alias in node.names}
                imports |= inner & files.keys() if inner & files.keys() else {node.module}
        found[name] = imports & files.keys() - {name}
    return found


# What each package may import, besides itself, ``diagnostics`` and ``version``. "converters.*" is
# every converter; "everything" is for what uses all of the packages.
MAY_IMPORT: dict[str, str] = {
    "support": "",
    "arrays": "support",
    "symbolic": "support",
    "storage": "arrays support",
    "syntax": "support symbolic",
    "semantics": "symbolic syntax",
    "stdlib": "semantics syntax",
    "graph": "arrays symbolic",
    "composition": "graph semantics symbolic syntax",
    "arguments": "arrays graph support symbolic",
    "reference": "arguments arrays graph symbolic",
    "model": "arguments arrays graph semantics stdlib storage support symbolic syntax",
    "converters.common": "graph semantics stdlib storage symbolic syntax",
    "converters.*": "arguments arrays converters.common graph model reference semantics stdlib "
    "storage support symbolic syntax",
    "formats": "converters.* converters.common model semantics stdlib storage support syntax",
    "tvm_support": "arrays support",
    "tir": "symbolic tvm_support",
    "exact": "tir tvm_support",
    "profiling": "graph support tvm_support",
    "vulkan_runtime": "support tvm_support",
    "quantization": "graph model semantics support syntax",
    "extraction": "converters.common graph model semantics storage symbolic syntax",
    "executable": "arguments arrays graph profiling storage support symbolic tvm_support "
    "vulkan_runtime",
    "lower": "arrays exact graph profiling symbolic tir tvm_support",
    "schedules.machine": "tvm_support",
    "schedules.analysis": "symbolic tir tvm_support",
    "schedules.plan": "schedules.analysis schedules.machine tir tvm_support",
    "schedules.codegen": "schedules.analysis schedules.machine schedules.plan tir tvm_support",
    "schedules.cpu": "schedules.analysis schedules.codegen schedules.machine schedules.plan tir "
    "tvm_support",
    "schedules.gpu": "schedules.analysis schedules.codegen schedules.machine schedules.plan tir "
    "tvm_support",
    "schedules.relax": "exact schedules.analysis schedules.codegen schedules.cpu "
    "schedules.machine schedules.plan tir tvm_support",
    "schedules": "schedules.analysis schedules.cpu schedules.gpu schedules.plan tvm_support",
    "spirv": "schedules.analysis schedules.codegen schedules.gpu schedules.plan tir "
    "tvm_support vulkan_runtime",
    "measurement": "profiling schedules schedules.analysis schedules.cpu schedules.machine "
    "schedules.plan support tir tvm_support",
    "compilation": "exact executable graph lower measurement profiling schedules schedules.codegen "
    "schedules.gpu schedules.machine schedules.plan schedules.relax spirv storage support "
    "symbolic tvm_support",
    "tuning": "compilation measurement schedules support tvm_support",
    "display": "arrays graph model semantics storage support symbolic syntax",
    "api": "arguments arrays compilation composition converters.* display executable extraction "
    "formats graph lower measurement model quantization reference schedules semantics storage "
    "support tuning tvm_support",
    "comparison": "everything",
    "language_server": "api composition formats graph model semantics stdlib storage symbolic "
    "syntax",
    "cli": "everything",
}


def test_packages_import_only_what_they_may() -> None:
    """A module that is named in a call of ``import_module`` counts as imported, too."""
    found = {
        (package(name), package(each))
        for name, imports in imported_modules().items()
        for each in {*imports, *named_modules(name)}
    }
    allowed = {
        (name, each)
        for name, text in MAY_IMPORT.items()
        for each in (MAY_IMPORT if text == "everything" else text.split())
    }
    inside = {(one, other) for one, other in found if "" not in (one, other) and one != other}
    assert inside <= allowed


def test_the_table_of_packages_has_no_circle() -> None:
    everything = {"comparison", "cli"}
    table = {name: set(text.split()) for name, text in MAY_IMPORT.items()}
    assert circles({name: each for name, each in table.items() if name not in everything}) == []
    assert not [name for name, each in table.items() if each & everything]


def package(module: str) -> str:
    """The package of a module in the table; empty for the few modules beside the packages."""
    _, *parts = module.split(".")
    if parts[:1] == ["converters"]:
        return "converters.common" if parts[1:2] == ["common"] else "converters.*"
    if parts[:1] == ["schedules"] and len(parts) > 1:
        return ".".join(parts[:2])
    return parts[0] if parts and parts[0] not in ("diagnostics", "version", "__main__") else ""


def named_modules(name: str) -> set[str]:
    """The modules that calls of ``import_module`` in a module name."""
    files = source_files()
    calls = (node for node in nodes_of(name) if isinstance(node, ast.Call))
    texts = (
        each.value
        for call in calls
        if "import_module" in (getattr(call.func, "attr", ""), getattr(call.func, "id", ""))
        for each in call.args
        if isinstance(each, ast.Constant)
    )
    return {text for text in texts if text in files and text != name}


ROOT = Path(__file__).resolve().parent.parent
PACKAGES = [
    (ROOT / "tvm_nnef", "tvm_nnef"),
    (ROOT / "schedules", "tvm_nnef.schedules"),
    (ROOT / "converters", "tvm_nnef.converters"),
]


@functools.cache
def source_files() -> dict[str, Path]:
    """The files of all modules, by name."""
    return {name: file for folder, prefix in PACKAGES for name, file in _modules(folder, prefix)}


def _modules(folder: Path, prefix: str) -> Iterator[tuple[str, Path]]:
    for file in sorted(folder.rglob("*.py")):
        parts = [*prefix.split("."), *file.relative_to(folder).with_suffix("").parts]
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), file


@functools.cache
def nodes_of(name: str) -> list[ast.AST]:
    """The imports and calls in a module."""
    tree = ast.parse(source_files()[name].read_text("utf-8"))
    kinds = (ast.Import, ast.ImportFrom, ast.Call)
    return [node for node in ast.walk(tree) if isinstance(node, kinds)]


def circles(imports: dict[str, set[str]]) -> list[tuple[str, ...]]:
    """A circle of modules, if there is one."""
    try:
        tuple(graphlib.TopologicalSorter(imports).static_order())
    except graphlib.CycleError as problem:
        return [tuple(problem.args[1])]
    return []
