"""Every command takes StableHLO files; damaged and hostile ones are diagnostics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.cli import main

jax = pytest.importorskip("jax", reason="JAX is not installed: pip install 'tvm-nnef[jax]'")
X = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)


def exported() -> Any:
    function = jax.jit(lambda x: jax.nn.relu(x + x))
    return jax.export.export(function)(jax.ShapeDtypeStruct((2, 3), "float32"))


@pytest.fixture(params=["text", "bytecode"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A module in a file whose name does not show the form."""
    path = tmp_path / "net.mlir"
    if request.param == "text":
        path.write_text(exported().mlir_module())
    else:
        path.write_bytes(exported().mlir_module_serialized)
    return str(path)


def test_commands_that_only_read(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", model]) == 0
    assert capsys.readouterr().out == f"{model}: no errors\n"
    assert main(["show", model]) == 0
    assert "math.max" in capsys.readouterr().out


def test_run_and_convert(model: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    files = [str(tmp_path / name) for name in ("x.npy", "y.npy")]
    assert main(["run", model, "-i", files[0], "-o", files[1], "--route", "reference"]) == 0
    np.testing.assert_array_equal(np.load(files[1]), np.maximum(X + X, 0))
    assert main(["convert", model, str(tmp_path / "net.nnef2")]) == 0
    (found,) = tvm_nnef.evaluate(tmp_path / "net.nnef2", X)
    np.testing.assert_array_equal(found, np.maximum(X + X, 0))


def test_build_and_compare(model: str, tmp_path: Path) -> None:
    library = tmp_path / "net.so"
    assert main(["build", model, "-o", str(library)]) == 0
    np.testing.assert_array_equal(tvm_nnef.load(library)(X)[0], np.maximum(X + X, 0))
    assert main(["compare", model, "--routes", "reference", "jax"]) == 0


@pytest.mark.slow
def test_a_build_beside_the_threads_of_jax_warns_of_nothing(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    jax.jit(lambda x: x + 1)(X)
    tvm_nnef.build(exported(), progress=False, cache=False).export(tmp_path / "net.so")
    assert [str(each.message) for each in recwarn if "fork" in str(each.message)] == []


def function_of(body: str, type_: str = "tensor<2xf32>") -> bytes:
    signature = f"func.func @main(%a: {type_}) -> {type_}"
    return f"module {{ {signature} {{\n{body}\n}} }}".encode()


BYTECODE = exported().mlir_module_serialized
HOSTILE: dict[str, tuple[bytes, str]] = {
    **{
        f"{count} bytes": (BYTECODE[:count], "not a StableHLO module")
        for count in (5, len(BYTECODE) // 3, len(BYTECODE) // 2, len(BYTECODE) - 3)
    },
    "half of an Exported": (bytes(exported().serialize())[:600], "error"),
    "huge": (function_of("return %a : tensor<1000000000000x1000000xf32>",
             "tensor<1000000000000x1000000xf32>"), "too large"),
    "deep": (b"module {" * 20000 + b"}" * 20000, "nested deeper than 512"),
    "deep attribute": (
        b"module attributes {a = " + b"[" * 50000 + b"]" * 50000 + b"} {}", "nested deeper"),
    "unknown dialect": (
        function_of('%0 = "foo.bar"(%a) : (tensor<2xf32>) -> tensor<2xf32>\n'
                    " return %0 : tensor<2xf32>"), "unregistered dialect"),
    "another dialect": (
        function_of("%0 = arith.addf %a, %a : tensor<2xf32>\n return %0 : tensor<2xf32>"),
        "arith.addf at \"-\":2:6 cannot be converted"),
    "memref": (function_of("return %a : memref<2xf32>", "memref<2xf32>"), "use tensors alone"),
    "unranked": (function_of("return %a : tensor<*xf32>", "tensor<*xf32>"), "use tensors alone"),
    "float8": (function_of("return %a : tensor<2xf8E4M3FN>", "tensor<2xf8E4M3FN>"),
               "the type f8E4M3FN cannot be converted"),
    "jump": (function_of("cf.br ^bb1\n^bb1:\n return %a : tensor<2xf32>"), "cf.br"),
    "recursion": (
        function_of("%0 = call @main(%a) : (tensor<2xf32>) -> tensor<2xf32>\n"
                    "return %0 : tensor<2xf32>"), "nested deeper than 64"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, expected = HOSTILE[name]
    path = tmp_path / "net.mlir"
    path.write_bytes(data)
    assert main(["check", str(path)]) == 1
    assert expected in capsys.readouterr().err
