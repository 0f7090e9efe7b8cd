"""Models built for Vulkan, run on the device of this machine, which may be a software one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.diagnostics import NnefError
from tvm_nnef.spirv import grids
from tvm_nnef.vulkan_runtime import device as devices
from tvm_nnef.vulkan_runtime import launcher
from tvm_nnef.vulkan_runtime.library import unpack

DIGITS = Path(__file__).parents[2] / "docs" / "examples" / "digits"

NETWORK = """
import nn; import math;
graph G {
    @input { x: real[2, 3, 9, 11]; f: real[4, 3, 3, 3]; }
    @output { y: real; z: real; }
    @compose {
        c = nn.conv{padding=[1, 1, 1, 1]}(x, f);
        p = nn.max_pool{axes=[2, 3], size=[2, 2], stride=[2, 2]}(c);
        y = nn.softmax{axes=[1]}(p);
        z = math.sum_reduce{axes=[2, 3], squeeze=true}(c);
    }
}
"""


def built(text: str, **options: Any) -> Any:
    return tvm_nnef.build(text, "vulkan", progress=False, **options)


def values(*shapes: tuple[int, ...]) -> list[Any]:
    generator = np.random.default_rng(0)
    return [generator.standard_normal(shape).astype("float32") for shape in shapes]


@pytest.mark.slow
@pytest.mark.usefixtures("runs")
def test_a_network_gives_what_the_evaluator_gives() -> None:
    inputs = values((2, 3, 9, 11), (4, 3, 3, 3))
    wanted = tvm_nnef.evaluate(NETWORK, *inputs)
    for actual, expected in zip(built(NETWORK)(*inputs), wanted, strict=True):
        np.testing.assert_allclose(actual, expected, 2e-5, 2e-6)


@pytest.mark.usefixtures("runs")
def test_dynamic_dimensions() -> None:
    text = """
    import math; import linalg;
    graph G {
        @input { a: real[n|100, 7]; b: real[7, m|100]; }
        @output { y: real[~, ~]; z: real[~]; }
        @compose {
            p = linalg.matmul(a, b);
            y = math.exp(p);
            z = math.max_reduce{axes=[1], squeeze=true}(p);
        }
    }
    """
    executable = built(text)
    for n, m in ((1, 1), (5, 33), (64, 2), (0, 3)):
        a, b = values((n, 7), (7, m))
        product = a.astype("float64") @ b
        y, z = executable(a, b)
        np.testing.assert_allclose(y, np.exp(product), 1e-4, 1e-6)
        np.testing.assert_allclose(z, product.max(1), 1e-4, 1e-5)


ATTENTION = """
import nn; import math; import linalg;
graph G {
    @input { q: real[2,3,rows|99,20]; k: real[2,3,keys|99,20]; v: real[2,3,keys|99,20];
             mask: real[1,1,rows|99,keys|99]; }
    @output { y: real[~,~,~,~]; }
    @compose {
        a = linalg.matmul{transB=true}(q, k); s = math.add(a, mask);
        p = nn.softmax{axes=[-1]}(s); y = linalg.matmul(p, v);
    }
}
"""


@pytest.mark.slow
@pytest.mark.usefixtures("runs")
def test_attention() -> None:
    """Rows without any score above -inf are NaN, as in NumPy."""
    executable = built(ATTENTION)
    for rows, keys in ((1, 1), (5, 64), (65, 65), (64, 99), (0, 7)):
        q, k, v = values((2, 3, rows, 20), (2, 3, keys, 20), (2, 3, keys, 20))
        mask = np.where(np.tri(rows, keys, keys - rows - 1, bool), 0, -np.inf)[None, None]
        (found,) = executable(q, k, v, mask.astype("float32"))
        with np.errstate(invalid="ignore"):
            scores = q.astype("float64") @ k.swapaxes(2, 3) + mask
            powers = np.exp(scores - scores.max(-1, keepdims=True))
        np.testing.assert_allclose(found, powers / powers.sum(-1, keepdims=True) @ v, 1e-4, 1e-5)
        assert np.isnan(found).any() == (0 < keys <= rows)


@pytest.mark.usefixtures("runs")
def test_more_blocks_than_a_launch_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grids, "MOST_BLOCKS", 3)
    text = """
    import math; import nn;
    graph G {
        @input { x: real[500, 40]; }
        @output { y: real; s: real; }
        @compose { y = math.exp(x); s = nn.softmax{axes=[1]}(x); }
    }
    """
    (x,) = values((500, 40))
    y, s = built(text)(x)
    power = np.exp(x.astype("float64"))
    np.testing.assert_allclose(y, power, 1e-6)
    np.testing.assert_allclose(s, power / power.sum(1, keepdims=True), 2e-6)


@pytest.mark.usefixtures("runs")
def test_a_library_is_loaded_and_written_again(tmp_path: Path) -> None:
    inputs = values((2, 3, 9, 11), (4, 3, 3, 3))
    executable = built(NETWORK)
    wanted = executable(*inputs)
    first, second = tmp_path / "first.so", tmp_path / "second.tar"
    executable.export(first)
    loaded = tvm_nnef.load(first)
    loaded.export(second)
    for each in (loaded, tvm_nnef.load(second)):
        for actual, expected in zip(each(*inputs), wanted, strict=True):
            np.testing.assert_array_equal(actual, expected)


def test_a_library_contains_packed_kernels(tmp_path: Path) -> None:
    """As TVM's own module for Vulkan writes them: its loader finds them under ``vulkan``."""
    built(NETWORK).export(tmp_path / "model.so")
    content = (tmp_path / "model.so").read_bytes()
    kind = (6).to_bytes(8, "little") + b"vulkan"
    begin = content.index(kind + content[content.index(kind) + 14 :][:8] + kind) + 22
    length = int.from_bytes(content[begin - 8 : begin], "little")
    shaders = unpack(content[begin : begin + length])
    assert shaders and all(each.words[0] == 0x07230203 for each in shaders)


ODD = {
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "exp": np.exp, "log": np.log, "log2": np.log2,
}  # fmt: skip
RANGES = {
    "sin": 5000, "cos": 5000, "tan": 1000, "asin": 1, "acos": 1, "atan": 1e4, "sinh": 89,
    "cosh": 89, "tanh": 20, "asinh": 1e6, "acosh": 1e6, "atanh": 0.999, "exp": 89, "log": 1e38,
    "log2": 1e38,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.usefixtures("runs")
def test_functions_are_precise_and_right_for_special_numbers() -> None:
    """To some units of the last place, where SPIR-V's own functions may be wrong by thousands."""
    count = 1024
    generator = np.random.default_rng(0)
    special = [0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 2.5, -2.5, 3]
    arguments = []
    for reach in RANGES.values():
        x = generator.uniform(-reach, reach, count)
        x[::3] *= 10.0 ** -generator.uniform(0, 6, x[::3].size)
        x[-len(special) :] = special
        arguments.append(x.astype("float32"))
    base, power = (generator.uniform(*ends, count) for ends in ((0, 20), (-10, 10)))
    power[:300], base[:150] = np.round(power[:300]), -base[:150]
    grid = np.meshgrid(special, special)
    base[-100:], power[-100:] = (each.ravel() for each in grid)
    pair = [base.astype("float32"), power.astype("float32")]
    names = [f"x{number}" for number in range(len(ODD))]
    text = (
        "import math; graph G { @input { "
        + " ".join(f"{name}: real[{count}];" for name in [*names, "a", "b"])
        + " } @output { "
        + " ".join(f"y{name}: real;" for name in [*names, "p"])
        + " } @compose { yp = math.pow(a, b); "
        + " ".join(f"y{x} = math.{name}({x});" for x, name in zip(names, ODD, strict=True))
        + " } }"
    )
    *found, powers = built(text)(*arguments, *pair)
    with np.errstate(all="ignore"):
        for (name, function), x, actual in zip(ODD.items(), arguments, found, strict=True):
            expected = function(x.astype("float64")).astype("float32")
            np.testing.assert_allclose(actual, expected, 4e-7, 1e-37, err_msg=name)
        expected = np.power(*(each.astype("float64") for each in pair)).astype("float32")
        np.testing.assert_allclose(powers, expected, 5e-6, 1e-37)


# What is missing


def test_what_spirv_has_no_function_for_is_an_error() -> None:
    graph = "@input { x: real[3]; } @output { y: real; } @compose { y = math.sin(x); }"
    text = f"import math; graph G {{ {graph} }}"
    with pytest.raises(NnefError, match=r"'sin' of float64") as caught:
        built(text, dtypes={"real": "float64"})
    assert caught.value.diagnostics[0].hint == "build for a CPU, such as 'native'"


@pytest.mark.parametrize("problem", [ImportError("no module"), OSError("no libvulkan.so.1")])
def test_a_missing_package_or_loader_is_named(
    problem: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(name: str) -> Any:
        raise problem

    monkeypatch.setattr(devices.importlib, "import_module", fail)
    with pytest.raises(NnefError) as caught:
        devices.Device()
    assert "pip install 'vulkan>=1.3.275'" in str(caught.value.diagnostics[0].hint)


WITHOUT_DRIVER = """
import sys, numpy as np, tvm_nnef
executable = tvm_nnef.build(sys.argv[1], "vulkan", progress=False)
executable.export(sys.argv[2])
for make in (lambda: executable, lambda: tvm_nnef.load(sys.argv[2])):
    try:
        make()(np.zeros((2, 3, 9, 11), "float32"), np.zeros((4, 3, 3, 3), "float32"))
    except tvm_nnef.NnefError as problem:
        print(problem)
"""


@pytest.mark.slow
def test_without_a_driver_models_are_built_and_calls_are_errors(tmp_path: Path) -> None:
    pytest.importorskip("cffi")
    arguments = [sys.executable, "-c", WITHOUT_DRIVER, NETWORK, str(tmp_path / "model.so")]
    nothing = {"VK_ICD_FILENAMES": "/none", "VK_DRIVER_FILES": "/none"}
    done = subprocess.run(
        arguments, env={**os.environ, **nothing}, capture_output=True, text=True, check=True
    )
    # The first one is said if the loader of Vulkan itself is not installed.
    causes = ("there is no Vulkan on this machine", "no driver for Vulkan")
    assert any(cause in done.stdout for cause in causes), done.stdout
    assert "pip install 'vulkan>=1.3.275'" in done.stdout and done.stdout.count("error:") == 2


def test_a_device_without_a_feature_is_named(vulkan: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (shader, *_) = unpack(launcher.kernels_of(built(NETWORK)._program.files.library.mod)[1])
    monkeypatch.setattr(vulkan.device, "_present", frozenset())
    monkeypatch.setattr(vulkan.device, "_pipelines", {})
    with pytest.raises(NnefError, match="cannot run the kernel") as caught:
        vulkan.device.launch(shader, [], b"", [1, 1, 1])
    assert "shaderSignedZeroInfNanPreserveFloat32" in str(caught.value.diagnostics[0].hint)


@pytest.mark.usefixtures("runs")
def test_too_little_memory_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    executable = built(NETWORK)
    found = launcher.device()
    allocated = found._allocated

    def limited(size: int, usage: int) -> Any:
        return allocated(1 << 60 if size > 1000 else size, usage)

    monkeypatch.setattr(found, "_allocated", limited)
    with pytest.raises(NnefError, match="out of memory"):
        executable(*values((2, 3, 9, 11), (4, 3, 3, 3)))


@pytest.mark.parametrize("option", ["checked", "verify"])
def test_checks_of_indices_are_refused(option: str) -> None:
    with pytest.raises(NnefError, match="not possible for Vulkan"):
        tvm_nnef.build(NETWORK, "vulkan", progress=False, **{option: True})
