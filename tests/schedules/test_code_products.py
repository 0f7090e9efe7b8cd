"""Products with weights of few bits: codes stay packed, whatever formula says what they mean."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef import schedules
from tvm_nnef.compilation.options import Compiling
from tvm_nnef.compilation.passes import run_phases
from tvm_nnef.compilation.pipeline import compile_phases
from tvm_nnef.compilation.target import resolve
from tvm_nnef.diagnostics import NnefError

STRATEGY = "cpu.code_product"

DEPTH, COLUMNS, BLOCK = 96, 96, 32

TEXT = """
import layout, linalg, math, nbits, nn;

operator shifted {
    @attrib { bits: int; }
    @input { bytes: int[n, m]; }
    @output { codes: int[n, k]; }
    @using { each = 8 / bits; k = m * each; }
    @lower {
        power = int(2.0 ** real(bits * (j % each))),
        codes[i, j] = bytes[i, j / each] / power % 2 ** bits,
            i < n, j < k;
    }
}

operator of_blocks {
    @input { codes: int[n, k]; scales: real[n, b]; zeros: int[n, b]; }
    @output { weight: real[n, k]; }
    @using { size = k / b; }
    @lower {
        weight[i, j] = scales[i, j / size] * real(codes[i, j] - zeros[i, j / size]),
            i < n, j < k;
    }
}

graph Net {
    @input { INPUTS }
    @variable { b: int[N, M]; s: real[N, G]; z: int[N, G]; bias: real[N]; }
    @output { OUTPUTS }
    @compose { WEIGHT PRODUCTS }
}
"""

WEIGHTS = {
    "module": """
        codes = nbits.unpack{bits=BITS, length=K}(b);
        zeros = layout.cast<real>(z);
        w = nbits.dequantize{blocks=[1, B]}(codes, s, zeros);
    """,
    "one zero": """
        codes = nbits.unpack{bits=BITS, length=K}(b);
        w = nbits.dequantize{blocks=[1, B], zero=HALF}(codes, s);
    """,
    "half a zero": """
        codes = nbits.unpack{bits=BITS, length=K}(b);
        whole = layout.cast<real>(z);
        zeros = math.add(whole, 0.3);
        w = nbits.dequantize{blocks=[1, B]}(codes, s, zeros);
    """,
    "own formula": """
        codes = shifted{bits=BITS}(b);
        w = of_blocks(codes, s, z);
    """,
    "operators": """
        codes = nbits.unpack{bits=BITS, length=K}(b);
        grouped = layout.reshape{shape=[N, G, B]}(codes);
        zeros = layout.unsqueeze{axes=[2]}(z);
        scales = layout.unsqueeze{axes=[2]}(s);
        reals = layout.cast<real>(grouped);
        real_zeros = layout.cast<real>(zeros);
        less = math.sub(reals, real_zeros);
        scaled = math.mul(less, scales);
        w = layout.reshape{shape=[N, K]}(scaled);
    """,
}  # fmt: skip


def model(
    form: str, rows: Mapping[str, str], bits: int = 4, columns: int = COLUMNS, depth: int = DEPTH
) -> tuple[Any, dict[str, Any], np.ndarray]:
    """A model with a product for each number of rows, options for it, and the weight."""
    random, blocks = np.random.default_rng(bits), depth // BLOCK
    codes = random.integers(0, 1 << bits, (columns, depth))
    packed = np.zeros((columns, depth * bits // 8), np.uint8)
    for part in range(8 // bits):
        packed |= (codes[:, part :: 8 // bits] << bits * part).astype(np.uint8)
    scales = random.uniform(0.01, 0.02, (columns, blocks)).astype(np.float32)
    zeros = random.integers(0, 1 << bits, (columns, blocks)).astype(np.uint8)
    bias = random.standard_normal(columns).astype(np.float32)
    text = TEXT.replace("WEIGHT", WEIGHTS[form])
    text = text.replace("INPUTS", "".join(f"{n}: real[{size}, K]; " for n, size in rows.items()))
    text = text.replace("OUTPUTS", "".join(f"y{n}: real[{size}, N]; " for n, size in rows.items()))
    products = (f"l{n} = nn.linear({n}, w, bias); y{n} = nn.relu(l{n});" for n in rows)
    text = text.replace("PRODUCTS", "\n".join(products))
    numbers = {"N": columns, "K": depth, "G": blocks, "B": BLOCK, "BITS": bits,
               "M": packed.shape[1], "HALF": float(1 << bits - 1)}  # fmt: skip
    for name, number in numbers.items():
        text = re.sub(rf"\b{name}\b", str(number), text)
    values = {"main.Net.b": packed, "main.Net.s": scales, "main.Net.z": zeros}
    loaded = tvm_nnef.load_model(text, variables={**values, "main.Net.bias": bias})
    options = {"dtypes": {"main.Net.b": "uint8", "main.Net.z": "uint8"}}
    real_zeros = {"one zero": np.full(zeros.shape, 1 << bits - 1), "half a zero": zeros + 0.3}
    zero = np.repeat(real_zeros.get(form, zeros), BLOCK, 1)
    weight = (codes - zero) * np.repeat(scales.astype(float), BLOCK, 1)
    return loaded, options, np.vstack([weight.T, bias[None]])


def expected(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return np.maximum(x.astype(float) @ weight[:-1] + weight[-1], 0)


def plans(loaded: Any, options: Mapping[str, Any]) -> list[str]:
    """The strategies of a model, in the order of its kernels."""
    lowered = tvm_nnef.from_nnef(loaded, **options)
    mod = run_phases(lowered, resolve("x86-64-v3"), "bind", "schedule")
    return [str(kernel.strategy) for kernel in schedules.report(mod)]


def check(loaded: Any, options: Mapping[str, Any], weight: np.ndarray, *rows: int) -> None:
    random = np.random.default_rng(7)
    given = [random.standard_normal((n, len(weight) - 1)).astype(np.float32) for n in rows]
    built = tvm_nnef.build(loaded, verify=True, progress=False, **options)
    for x, found in zip(given, built(*given), strict=True):
        np.testing.assert_allclose(found, expected(x, weight), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("form", WEIGHTS)
def test_every_form_of_a_weight_is_a_product_with_codes(form: str) -> None:
    """And so is what follows it: there is one kernel."""
    loaded, options, _ = model(form, {"x": "1"})
    assert plans(loaded, options) == [STRATEGY]


ROWS = {"x1": "1", "x2": "2", "x4": "4", "x5": "5", "x19": "19"}


@pytest.mark.parametrize(
    ("form", "bits"),
    [
        ("module", 4),
        pytest.param("one zero", 4, marks=pytest.mark.slow),
        pytest.param("half a zero", 4, marks=pytest.mark.slow),
        pytest.param("own formula", 2, marks=pytest.mark.slow),
        pytest.param("module", 8, marks=pytest.mark.slow),
        pytest.param("operators", 4, marks=pytest.mark.slow),
    ],
)
def test_products_of_few_and_many_rows_agree(form: str, bits: int) -> None:
    loaded, options, weight = model(form, ROWS, bits)
    assert plans(loaded, options) == [STRATEGY] * len(ROWS)
    check(loaded, options, weight, *map(int, ROWS.values()))


FORMULAS = {
    "inside": """
        y[i, j] += x[i, k] * (real(k % 2 == 0 ? b[j, k / 2] % 16 : b[j, k / 2] / 16) - 8.0)
            * s[j, k / 32], i < m, j < n, k < 2 * h;
    """,
    "named": """
        code = k % 2 == 0 ? b[j, k / 2] % 16 : b[j, k / 2] / 16,
        weight = (real(code) - 8.0) * s[j, k / 32],
        y[i, j] += x[i, k] * weight, i < m, j < n, k < 2 * h;
    """,
}


@pytest.mark.parametrize("body", FORMULAS)
def test_a_formula_that_multiplies_with_codes_is_such_a_product(body: str) -> None:
    text = f"""
operator product {{
    @input {{ x: real[m, d]; b: int[n, h]; s: real[n, g]; }}
    @output {{ y: real[m, n]; }}
    @lower {{ {FORMULAS[body]} }}
}}

graph Net {{
    @input {{ x: real[1, {DEPTH}]; }}
    @variable {{ b: int[{COLUMNS}, {DEPTH // 2}]; s: real[{COLUMNS}, {DEPTH // BLOCK}]; }}
    @output {{ y: real[1, {COLUMNS}]; }}
    @compose {{ y = product(x, b, s); }}
}}
"""
    source, options, weight = model("one zero", {"x": "1"})
    values = {name: source.variables[name] for name in ("main.Net.b", "main.Net.s")}
    loaded = tvm_nnef.load_model(text, variables=values)
    options = {"dtypes": {"main.Net.b": "uint8"}}
    assert plans(loaded, options) == [STRATEGY]
    if body == "named":
        x = np.random.default_rng(1).standard_normal((1, DEPTH)).astype(np.float32)
        (found,) = tvm_nnef.build(loaded, verify=True, progress=False, **options)(x)
        np.testing.assert_allclose(found, x @ weight[:-1], rtol=2e-5, atol=2e-5)


@pytest.mark.slow
def test_columns_that_panels_do_not_divide_agree() -> None:
    loaded, options, weight = model("module", {"x1": "1", "x9": "9"}, columns=71)
    check(loaded, options, weight, 1, 9)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["module", "operators"])
def test_a_library_has_the_codes(form: str, tmp_path: Path) -> None:
    """And no reals: they would take eight times as much."""
    loaded, options, _ = model(form, {"x": "1"}, columns=1024, depth=1024)
    path = tmp_path / "library.so"
    tvm_nnef.build(loaded, progress=False, **options).export(path)
    codes, others = 1024 * 1024 // 2, 1024 * 1024 // BLOCK * 5
    assert codes < path.stat().st_size < codes + others + (1 << 18)


@pytest.mark.slow
def test_infinite_data_give_what_the_formula_does() -> None:
    loaded, options, _ = model("one zero", {"x": "1"})
    built = tvm_nnef.build(loaded, progress=False, **options)
    for value in (np.inf, -np.inf, np.nan):
        x = np.ones((1, DEPTH), np.float32)
        x[0, 40] = value
        expected = tvm_nnef.evaluate(loaded, x, **options)[0]
        np.testing.assert_allclose(built(x)[0], expected, rtol=2e-5)
        assert np.isinf(expected).any() or np.isnan(value)


def test_rows_of_a_weight_are_computed_where_they_are_read() -> None:
    """Of an embedding that is the weight of a product as well, nothing else is computed."""
    text = """
import layout, linalg, nbits;

graph Net {
    @input { i: int[3]; }
    @variable { b: int[96, 48]; s: real[96, 3]; }
    @output { y: real[3, 96]; }
    @compose {
        codes = nbits.unpack{bits=4, length=96}(b);
        w = nbits.dequantize{blocks=[1, 32], zero=8.0}(codes, s);
        x = layout.gather{axis=0}(w, i);
        y = linalg.matmul{transB=true}(x, w);
    }
}
"""
    source, _, weight = model("one zero", {"x": "1"})
    values = {name: source.variables[name] for name in ("main.Net.b", "main.Net.s")}
    loaded = tvm_nnef.load_model(text, variables=values)
    options = {"dtypes": {"main.Net.b": "uint8"}}
    assert sorted(plans(loaded, options)) == [STRATEGY, "cpu.elementwise"]
    rows = np.array([5, 95, 0], np.int32)
    (found,) = tvm_nnef.build(loaded, verify=True, progress=False, **options)(rows)
    expected = weight[:-1].T[rows] @ weight[:-1]
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


def rounded(x: np.ndarray) -> np.ndarray:
    """Data whose blocks are whole multiples of a 127th of their largest element."""
    blocks = x.reshape(len(x), -1, BLOCK)
    largest = np.abs(blocks).max(-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.where(largest > 0, np.rint(blocks * (np.float32(127) / largest)), 0)
    return (steps * (largest / 127.0)).reshape(x.shape)


@pytest.mark.parametrize(
    ("form", "bits"),
    [("module", 4), *(pytest.param(form, bits, marks=pytest.mark.slow)
                      for form, bits in (("one zero", 4), ("half a zero", 4), ("module", 2)))],
)  # fmt: skip
def test_data_of_many_rows_may_be_rounded_to_int8(form: str, bits: int) -> None:
    loaded, options, weight = model(form, {"x1": "1", "x": "rows"}, bits, columns=71)
    built = tvm_nnef.build(loaded, int8_activations=True, progress=False, **options)
    random = np.random.default_rng(7)
    single = random.standard_normal((1, DEPTH)).astype(np.float32)
    for rows in (3, 8, 21):
        x = random.standard_normal((rows, DEPTH)).astype(np.float32)
        x[0, :BLOCK] = 0
        one, found = built(single, x)
        np.testing.assert_allclose(one, expected(single, weight), rtol=2e-5, atol=2e-5)
        np.testing.assert_allclose(found, expected(rounded(x), weight), rtol=2e-5, atol=2e-5)
        assert not np.allclose(found, expected(x, weight), rtol=1e-4, atol=1e-4)
    x[1, 40] = np.inf
    _, found = built(single, x)
    with np.errstate(invalid="ignore"):
        wanted = expected(x, weight)
    finite = np.isfinite(wanted)
    assert not finite.all()
    np.testing.assert_array_equal(np.isfinite(found), finite)
    np.testing.assert_allclose(found[finite], wanted[finite], rtol=2e-5, atol=2e-5)


def test_rounding_to_int8_is_an_error_where_it_cannot_be() -> None:
    loaded, options, _ = model("module", {"x": "1"})
    with pytest.raises(NnefError, match="'cuda' has no int8 activations"):
        tvm_nnef.build(loaded, "cuda", int8_activations=True, progress=False, **options)
    with pytest.raises(NnefError, match="round no activations"):
        tvm_nnef.build(loaded, int8_activations=True, verify=True, progress=False, **options)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("triple", "cpu", "instruction"),
    [
        ("x86_64-linux-gnu", "x86-64-v3", "vpmaddubsw"),
        ("x86_64-linux-gnu", "icelake-server", "vpdpbusd.*zmm"),
        ("aarch64-linux-gnu", "neoverse-n1", "sdot"),
    ],
)
def test_machines_multiply_codes_by_their_instruction(
    triple: str, cpu: str, instruction: str
) -> None:
    loaded, options, _ = model("module", {"x": "rows"})
    lowered = tvm_nnef.from_nnef(loaded, **options)
    target = {"kind": "llvm", "mtriple": triple, "mcpu": cpu}
    library = compile_phases(lowered, target, Compiling(int8_activations=True))["code"]
    assert re.search(instruction, library.mod.imports[0].inspect_source("asm"))
