"""What works where NumPy and lark alone are installed, and the errors of what does not."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

from tvm_nnef.diagnostics import NnefError
from tvm_nnef.support.requirements import _PACKAGES, needed_for

DIGITS = Path(__file__).resolve().parents[1] / "docs" / "examples" / "digits"
COMMON = '''
import contextlib, io, sys
import numpy as np
import tvm_nnef
from tvm_nnef.cli import main

TEXT = """import math;
graph G { @input { x: real[2, 3]; } @output { y: real[2, 3]; } @variable { w: real[1, 3]; }
  @compose { y = math.mul(x, w); } }
"""
X, W = np.arange(6, dtype="float32").reshape(2, 3), np.array([[1, 2, 3]], "float32")
Y = [[0, 2, 6], [3, 8, 15]]

def printed(*arguments, status=0):
    """What a command prints on standard output and standard error."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        with contextlib.redirect_stderr(io.StringIO()) as errors:
            try:
                found = main([*arguments])
            except SystemExit as end:
                found = end.code
    assert found == status, (arguments, found, errors.getvalue())
    return out.getvalue(), errors.getvalue()
'''

WORKS = (
    COMMON
    + '''
model = tvm_nnef.load_model(TEXT, variables={"main.G.w": W})
assert tvm_nnef.check(model) == [] and tvm_nnef.check(TEXT.replace("y =", "z ="))
assert tvm_nnef.compose(model).name == "main.G"
assert tvm_nnef.evaluate(model, X)["y"].tolist() == Y
tvm_nnef.save_model(model, "saved")
assert tvm_nnef.evaluate("saved", X)[0].tolist() == Y
assert tvm_nnef.read_tensor("saved/main.G.w.dat").tolist() == W.tolist()
tvm_nnef.write_tensor("t.dat", X)
assert (tvm_nnef.read_tensor("t.dat") == X).all()

NNEF1 = "version 1.0; graph g(x) -> (y) { x = external(shape = [2, 3]); y = sub(x, 2.0); }"
TILE = """Tensor f(const Tensor& x) { TensorDim M, N; TensorIndex i, j; x.bind_dims(M, N);
auto y = TensorOutput(M); y(i) += x(i, j); return y; }"""
ANTARES = """einstein_v2("y[N, M] = x[M, N]",
    input_dict={"x": {"dtype": "float32", "shape": [2, 3]}})"""
for text, options, expected in (
    (NNEF1, {}, (X - 2).tolist()),
    (TILE, {"input_shapes": {"x": (2, 3)}}, [3, 12]),
    (ANTARES, {}, X.T.tolist()),
):
    converted = tvm_nnef.convert(text, **options)
    assert tvm_nnef.evaluate(converted, X)[0].tolist() == expected, text
tvm_nnef.convert("saved", "back.nnef1")
assert tvm_nnef.evaluate("back.nnef1", X)[0].tolist() == Y

np.save("x.npy", X)
assert "no errors" in printed("check", "saved")[0]
assert "math.mul" in printed("show", "saved")[0]
assert printed("show", "saved", "--json")[0].startswith("{")
printed("show", "saved", "--svg", "g.svg")
printed("run", "saved", "--route", "reference", "-i", "x.npy", "-o", "y.npy")
assert np.load("y.npy").tolist() == Y
assert "nn.conv" in printed("ops")[0]
assert printed("ops", "nn.relu")[0].startswith("# nn.relu: mapped")
printed("format", "saved")
printed("convert", "back.nnef1", "again")
assert "check" in printed("--help")[0]
assert printed("--version")[0] == f"tvm-nnef {tvm_nnef.__version__}\\n"
'''
)

FOREIGN = {
    *("PIL", "google", "jax", "jaxlib", "ml_dtypes", "onnx", "onnxruntime"),
    *("platformdirs", "psutil", "pygls", "rich", "torch", "tvm", "tvm_ffi"),
}

MISSING = (
    COMMON
    + """
model = tvm_nnef.load_model(TEXT, variables={"main.G.w": W})
tvm_nnef.save_model(model, "saved")
OPEN = TEXT.replace("real[2, 3]", "real[n|9, 3]")
FULL = "pip install apache-tvm"
CALLS = {
    "build": (lambda: tvm_nnef.build(model), "apache-tvm", FULL),
    "from_nnef": (lambda: tvm_nnef.from_nnef(model), "apache-tvm", FULL),
    "tune": (lambda: tvm_nnef.tune(model, trials=1, database="db"), "apache-tvm", FULL),
    "compare": (lambda: tvm_nnef.compare(model), "apache-tvm", FULL),
    "load": (lambda: tvm_nnef.load("model.so"), "apache-tvm", FULL),
    "an ONNX model": (
        lambda: tvm_nnef.load_model(b"", format="onnx"), "onnx", "pip install onnx"
    ),
    "to ONNX": (
        lambda: tvm_nnef.convert(model, "m.onnx"), "onnx", "pip install onnx"
    ),
    "StableHLO": (
        lambda: tvm_nnef.load_model("module {}\\n", format="stablehlo"), "jax",
        "pip install jax",
    ),
    "a dynamic dimension": (lambda: tvm_nnef.compose(OPEN), "apache-tvm", FULL),
    "bfloat16": (
        lambda: tvm_nnef.compose(model, dtypes={"real": "bfloat16"}), "ml-dtypes",
        "pip install ml-dtypes",
    ),
}
for name, (call, package, hint) in CALLS.items():
    try:
        call()
    except tvm_nnef.NnefError as problem:
        (found,) = problem.diagnostics
        assert f"needs the package '{package}'" in found.message, (name, found)
        assert found.hint.replace("'", "").startswith(hint), (name, found)
    else:
        raise AssertionError(name)
(found,) = tvm_nnef.check(OPEN)
assert "apache-tvm" in found.message

for arguments in (
    ("run", "saved"), ("build", "saved", "-o", "m.so"), ("bench", "saved"), ("compare", "saved"),
    ("tune", "saved", "--trials", "1", "--database", "db"), ("lsp",),
):
    message = printed(*arguments, status=1)[1]
    assert "needs the package" in message and "hint: pip install" in message, message
assert "not installed" in printed("env")[0]
"""
)


def run(program: str, folder: Path, environment: dict[str, str], *options: str) -> None:
    """Run a program in a folder."""
    command = [sys.executable, *options, "-c", program]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def alone(tmp_path: Path) -> dict[str, str]:
    """Variables with which ``python -S`` finds this package, NumPy and lark, and nothing else."""
    folder = tmp_path / "packages"
    folder.mkdir()
    for name in ("tvm_nnef", "numpy", "lark"):
        package = Path(str(importlib.import_module(name).__file__)).parent
        (folder / name).symlink_to(package)
        if (libraries := package.with_name(f"{name}.libs")).is_dir():
            (folder / libraries.name).symlink_to(libraries)
    return {**os.environ, "PYTHONPATH": str(folder)}


def test_reading_and_evaluating_import_no_other_packages(
    environment: dict[str, str], tmp_path: Path
) -> None:
    assertion = f"found = {FOREIGN} & sys.modules.keys()\nassert not found, found\n"
    run(WORKS + assertion, tmp_path, environment)


@pytest.mark.slow
def test_reading_and_evaluating_work_with_numpy_and_lark_alone(
    alone: dict[str, str], tmp_path: Path
) -> None:
    run(WORKS, tmp_path, alone, "-S")


@pytest.mark.slow
def test_what_needs_another_package_says_how_to_install_it(
    alone: dict[str, str], tmp_path: Path
) -> None:
    run(MISSING, tmp_path, alone, "-S")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("file", ["torch/data.txt", "torch/__init__.py", "torch.py"])
def test_a_user_s_own_torch_is_not_taken_for_pytorch(tmp_path: Path, file: str) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).touch()
    program = (
        "import sys, tvm_nnef.tvm_support; assert 'torch' not in sys.modules; import torch\n"
        f"sys.exit(len(tvm_nnef.check({str(DIGITS)!r})))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(("", *sys.path))}
    run(program, tmp_path, environment)


def test_the_command_line_does_not_import_pytorch(tmp_path: Path) -> None:
    """It takes seconds, and TVM imports it wherever it is installed."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "version.py").touch()
    (tmp_path / "torch" / "__init__.py").write_text("print('PyTorch is imported')")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(("", *sys.path))}

    def printed(*arguments: str) -> str:
        command = [sys.executable, *arguments]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, check=False, capture_output=True, text=True
        ).stdout

    assert "PyTorch is imported" in printed("-c", "import tvm_nnef.tvm_support")
    output = printed("-m", "tvm_nnef", "run", str(DIGITS))
    assert "%" in output
    assert "PyTorch is imported" not in output


def test_a_module_that_is_no_package_to_install_is_a_defect() -> None:
    with pytest.raises(ModuleNotFoundError), needed_for("this"):
        importlib.import_module("tvm_nnef.no_such_module")
    with pytest.raises(NnefError, match="this needs the package 'onnx'"), needed_for("this"):
        raise ModuleNotFoundError(name="onnx.helper")


def test_what_hints_name_installs_the_packages() -> None:
    tomllib = pytest.importorskip("tomllib", reason="Python 3.10 reads no TOML")
    file = Path(__file__).resolve().parents[1] / "pyproject.toml"
    project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
    installed = {**project["optional-dependencies"], "": project["dependencies"]}
    for package, extra, _ in _PACKAGES.values():
        names = {re.split(r"[<>=\[; ]", each)[0] for each in installed[extra]}
        assert package in names, (package, extra)


@pytest.mark.parametrize("installed", [False, True])
def test_a_file_that_hides_a_package_is_named_unless_it_is_installed(
    installed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tvm_nnef.support import requirements

    hiding = types.ModuleType("rich")
    hiding.__file__ = str(tmp_path / "rich" / "__init__.py")
    monkeypatch.setitem(sys.modules, "rich", hiding)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    if installed:
        (tmp_path / "rich-14.0.dist-info").mkdir()
    found = requirements.hidden_package()
    assert (found is None) == installed
    if found is not None:
        assert "hides the package 'rich'" in str(found)


@pytest.mark.parametrize(
    "version, fits",
    [("0.1.13.post3", False), ("0.1.14.post0", True), ("0.1.14.post1", True), ("0.1.14", True),
     ("0.1.15.post2", False), ("0.2.0", False), ("1.0", False)],
)  # fmt: skip
def test_versions_of_tvm_ffi_outside_of_the_required_range_are_an_error(
    version: str, fits: bool
) -> None:
    from importlib import metadata

    from packaging.requirements import Requirement

    from tvm_nnef.tvm_support import wrong_version

    required = next(
        requirement
        for requirement in map(Requirement, metadata.requires("tvm-nnef") or ())
        if requirement.name == "apache-tvm-ffi"
    )
    found = wrong_version(version)
    assert (found is None) == fits
    if version != "0.1.14":  # A pre-release of .post0 in the order of versions; there is none.
        assert required.specifier.contains(version) == fits
    if found is not None:
        assert f"'apache-tvm-ffi' {version}" in str(found)
        assert "pip install 'apache-tvm-ffi" in str(found)
