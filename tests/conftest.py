"""What all tests share: golden files, rewritten by ``pytest --update-golden``; outputs compared;
devices.

``--verify-kernels`` compares every kernel that a test builds with its unscheduled TIR, and
``--bounds-checks`` compiles bounds checks into them.
"""

from __future__ import annotations

import collections
import functools
import gc
import importlib.util
import itertools
import os
import stat
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "without time", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("without time")  # A busy machine makes no test fail.

GOLDENS = Path(__file__).parent / "goldens"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite the files of tests/goldens"
    )
    parser.addoption(
        "--verify-kernels", action="store_true", help="build with verify=True in all tests"
    )
    parser.addoption(
        "--bounds-checks", action="store_true", help="build with checked=True in all tests"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Change the defaults of ``tvm_nnef.build`` for this test run."""
    gc.disable()  # What is collected stays; to look through it again and again takes seconds.
    # Tests replace parts of the compiler, which no key of the cache covers.
    os.environ["TVM_NNEF_CACHE_MIB"] = "0"
    names = {"--verify-kernels": "verify", "--bounds-checks": "checked"}
    chosen = {name: True for option, name in names.items() if config.getoption(option)}
    if chosen:
        from tvm_nnef.api import building

        building.build = functools.partial(building.build, **chosen)


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()
    gc.set_threshold(50_000)


ROTATION = 8
"""With ``TVM_NNEF_SEED``, one in this many slow cases runs, unless ``rotated`` says otherwise."""


@pytest.hookimpl(tryfirst=True)  # Before the tests of a mark are selected.
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave most cases of sampled tests to the slow run; skip what needs a GPU where none is."""
    _sample(config, items)
    needing = [item for item in items if item.get_closest_marker("gpu") is not None]
    if not needing:
        return
    from tvm_nnef.tvm_support import build, runtime

    if build.cuda_arch() is None:
        reason = runtime.missing_library("cuda") or "no device"
        for item in needing:
            item.add_marker(pytest.mark.skip(reason=f"needs a GPU for CUDA: {reason}"))


def _sample(config: pytest.Config, items: list[pytest.Item]) -> None:
    seed = int(os.environ.get("TVM_NNEF_SEED") or 0)
    cases: dict[str, Iterator[int]] = collections.defaultdict(itertools.count)
    left_out = []
    for item in items:
        sampled = item.get_closest_marker("sampled")
        if sampled is not None and next(cases[item.nodeid.partition("[")[0]]) % sampled.args[0]:
            item.add_marker(pytest.mark.slow)
        if not seed or item.get_closest_marker("slow") is None:
            continue
        rotated = item.get_closest_marker("rotated")
        turns = ROTATION if rotated is None else rotated.args[0]
        if (zlib.crc32(item.nodeid.encode()) + seed) % turns:
            left_out.append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]


@pytest.fixture
def environment() -> dict[str, str]:
    """The variables of a process that imports the package of this one, outside of a checkout."""
    import tvm_nnef

    return {**os.environ, "PYTHONPATH": str(Path(tvm_nnef.__file__).parent.parent)}


@pytest.fixture(scope="session")
def simulation() -> Any:
    """The module that counts launches of schedules for GPUs, and runs them on the CPU."""
    return import_file(Path(__file__).parent / "schedules" / "gpu" / "simulation.py")


@pytest.fixture
def simulated_gpu(simulation: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """After a call, builds for this CPU have the schedules of a GPU, as serial loops."""
    return functools.partial(simulation.simulate, monkeypatch)


@pytest.fixture
def on_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """``tvm_nnef.build`` builds for CUDA."""
    import tvm_nnef

    monkeypatch.setattr(tvm_nnef, "build", functools.partial(tvm_nnef.build, target="cuda"))


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with ``tests/goldens/<package>/<name>.txt``."""
    room = request.path.parent.name

    def check(name: str, text: str) -> None:
        path = GOLDENS / room / f"{name}.txt"
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
        hint = f"{path.name} is missing; write it with --update-golden"
        assert path.is_file(), hint
        assert text.rstrip("\n") + "\n" == path.read_text(encoding="utf-8")

    return check


@pytest.fixture(scope="session")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    """The emulator of a CPU of ``emulation/machines.py``, by name; a test without it is skipped."""
    files = (
        Path(__file__).parent / "emulation" / f"{name}.py" for name in ("machines", "instructions")
    )
    module, instructions = map(import_file, files)

    @functools.cache
    def made(name: str) -> Any:
        if name in module.X86:
            folder = tmp_path_factory.mktemp(name)
            return module.Translator(module.X86[name], folder, instructions.for_this_cpu)
        return module.Emulator(module.MACHINES[name], tmp_path_factory.mktemp(name))

    return made


@pytest.fixture(scope="session")
def imported() -> Callable[[Path], Any]:
    """Import a file of the tests as a module."""
    return import_file


def import_file(file: Path) -> Any:
    """The module in a file of the tests."""
    spec = importlib.util.spec_from_file_location(f"tests_{file.parent.name}_{file.stem}", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def wrong_fusion(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels of several operations add 1.5 where 1 is meant; those of one operation are right."""
    import tvm_ffi
    from tvm import ir, tirx

    from tvm_nnef.compilation import passes
    from tvm_nnef.tvm_support.compat import prim_functions, update_functions

    last = passes.with_fused_reductions

    def changed(constant: Any) -> Any:
        return tirx.const(1.5, "float32") if constant.value == 1.0 else constant

    def broken(module: Any, machine: Any) -> Any:
        fused = last(module, machine)
        kernels = {
            name: tvm_ffi.structural_map(function, (tirx.FloatImm, changed))
            for name, function in prim_functions(fused).items()
            if str(getattr(name, "name_hint", name)).startswith("fused_")
        }
        assert isinstance(fused, ir.IRModule)
        return update_functions(fused, kernels)

    monkeypatch.setattr(passes, "with_fused_reductions", broken)


@pytest.fixture
def matches() -> Callable[[Any, Any], None]:
    """Compare the outputs of a model with numbers; a pack is a list, an array says its shape."""

    def check(found: Any, expected: Any) -> None:
        assert len(found) == len(expected)
        for item, wanted in zip(found, expected, strict=True):
            if isinstance(item, list):
                check(item, wanted)
                continue
            wanted = np.asarray(wanted, float)
            assert item.shape == wanted.shape
            np.testing.assert_allclose(np.asarray(item, float), wanted, rtol=1e-5)

    return check


@pytest.fixture
def devices(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the device nodes ``null`` and ``full``, which a failing test may destroy.

    Other users than root cannot make nodes, nor replace those of the system.
    """
    if os.geteuid() != 0:
        return Path("/dev")
    folder = tmp_path_factory.mktemp("devices")
    try:
        for name, minor in (("null", 3), ("full", 7)):
            os.mknod(folder / name, 0o666 | stat.S_IFCHR, os.makedev(1, minor))
            (folder / name).open("wb").close()
    except OSError:
        pytest.skip("device nodes cannot be made and opened here")
    return folder
