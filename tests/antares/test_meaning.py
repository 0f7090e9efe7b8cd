"""What expressions mean that the page does not show: dtypes, divisions, wrapping, names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef import NnefError
from tvm_nnef.cli import main
from tvm_nnef.converters.antares import einstein_v2

pytestmark = pytest.mark.sampled(3)

F = np.array([-2.5, -1.0, -0.5, 0.0, 0.5, 1.75, 2.0, 300.0], np.float32)
I = np.array([-130, -7, -1, 0, 1, 5, 127, 300], np.int32)  # noqa: E741
B = np.array([0, 1, 2, 0, 1, 3, 0, 1], np.int8)
GIVEN = {"f": F, "i": I, "b": B, "d": F.astype(np.float64), "h": F.astype(np.float16)}
GIVEN |= {"m": np.arange(24, dtype=np.int32).reshape(3, 8) % 7 - 3, "l": I.astype(np.int64)}
F_POSITIVE = np.abs(F) + 1

MEANINGS: list[tuple[str, Any]] = [
    ("y[N] = i[N] / 2", I // 2),
    ("y[N] = i[N] % 4", I % 4),
    ("y[N] = f[N] / 2", F / 2),
    ("y[N] = i[N] / 2.0", (I / 2.0).astype(np.float32)),
    ("y[N] = 1 / f[N].call(`max`, [1.0])", 1 / np.maximum(F, 1)),
    ("y[N] = f[N].cast(`int32`)", F.astype(np.int32)),
    ("y[N] = i[N].cast(`int8`)", I.astype(np.int8)),
    ("y[N] = i[N].cast(`int8`).cast(`float32`)", I.astype(np.int8).astype(np.float32)),
    ("y[N] = i[N].cast(`uint8`).cast(`int32`)", I.astype(np.uint8).astype(np.int32)),
    ("y[N] = f[N].cast(`float64`)", F.astype(np.float64)),
    ("y[N] = f[N].cast(`float16`)", F.astype(np.float16)),
    ("y[N] = f[N] + d[N]", F + F.astype(np.float64)),
    ("y[N] = h[N] + 1.0", F.astype(np.float16) + np.float16(1)),
    ("y[N] = h[N] + f[N]", F + F.astype(np.float16)),
    ("y[N] = b[N] + i[N]", B + I),
    ("y[N] = b[N] + 1", B + np.int8(1)),
    ("y[N] = l[N] + i[N]", I.astype(np.int64) * 2),
    ("y[N] = f[N] + N", (F + np.arange(8)).astype(np.float32)),
    ("y[N] = f[N].call(`floor`)", np.floor(F).astype(np.int32)),
    ("y[N] = d[N].call(`ceil`)", np.ceil(F).astype(np.int64)),
    ("y[N] = f[N].call(`remainder`)", F - np.floor(F)),
    ("y[N] = f[N].call(`abs`).call(`pow`, [2.0])", np.abs(F) ** 2),
    ("y[N] = i[N].call(`abs`)", np.abs(I)),
    ("y[N] = (f[N].call(`abs`) + 1.0).call(`log`)", np.log(F_POSITIVE)),
    ("y[N] = f[N].call(`min`, [1])", np.minimum(F, 1)),
    ("y[N] = f[N].call(`max`, [h[N], 1, b[N]])", np.maximum(np.maximum(F, 1), B)),
    ("y[N] = f[N].cast(i[N].dtype())", F.astype(np.int32)),
    ("y[N] = f[N].cast((m[K, 9] * N.val()).dtype())", F.astype(np.int32)),
    ("y[N] = f[N] > 0.0", (F > 0).astype(np.int8)),
    ("y[N] = (f[N] > 0.0) + (i[N] > 0)", ((F > 0).astype(np.int8) + (I > 0)).astype(np.int8)),
    ("y[N] = ~(b[N] | (f[N] > 1.0))", (~((B != 0) | (F > 1))).astype(np.int8)),
    ("y[N] = f[N].when([b[N]], 7)", np.where(B != 0, F, 7).astype(np.float32)),
    ("y[N] = f[N].when([f[N] > 0.0, i[N] > 1], 0.0)", np.where((F > 0) & (I > 1), F, 0)),
    ("y[N] = -(-f[N])", F),
    ("y[N] = N.val() * i[N]", 8 * I),
    ("y[N] = f[7 - N] where N in 8", F[::-1]),
    ("y[N] = f[N] where N in 2 * 2", F[:4]),
    ("y[0] +=! f[N]", F.sum(keepdims=True)),
    ("y[] +=! f[N]", F.sum()),
    ("y[A, 0] >=! m[A, C]", GIVEN["m"].max(1, keepdims=True)),
    ("y[A] >=! m[A, C]", GIVEN["m"].max(1)),
    ("y[A] <=! m[A, C]", GIVEN["m"].min(1)),
    ("y[A] +=! 1.0 where A in 3, R in 5", np.full(3, 5, np.float32)),
    ("y[C, A] = m[A, C]; z[C, A] = y[C, A] * 2", GIVEN["m"].T * 2),
    ("is[in] = f[in]; real[where] = is[where]", F),
    ("f[b[N]] =. i[N].cast(`float32`)", [127, 300, -1, 5, 0.5, 1.75, 2, 300]),
    ("t[N] = f[N] * 2; t[b[N]] =. 0; t[N + 4] =. 1 where N in 2",
     [0, 0, 0, 0, 1, 1, 4, 600]),
    ("y[A, C] = m[A, C] + i[C]; y[b[C] % 3, C] =. 9", None),
    ("y[A, B, C] = f[B % 2 + A * 4 + C / 2] where A in 2, B in 2, C in 4", None),
    ("y[N] +=! m[R // 8, R % 8] * i[N] where N in 8, R in 24", I * np.int32(GIVEN["m"].sum())),
    ("y[A] +=! m[A, R] where A in 3, R in 5", GIVEN["m"][:, :5].sum(1, dtype=np.int32)),
    ("y[A] +=! m[A, R] + R % 4 where A in 3", GIVEN["m"].sum(1, dtype=np.int32) + 12),
    ("y[N] = f[N] - f[N] + " + "f[N] + " * 80 + "0.0", 80 * F),
    ("# a comment\ny[N] = f[N] # another\n;", F),
    ("y[N] +=! f[N + K - 1].when([N + K - 1 >= 0, 8 > N + K - 1], 0) where N in 8, K in 3",
     np.convolve(F, np.ones(3, np.float32), "same")),
    # Bounds checks are guards, however they are written; other conditions stay conditions.
    ("y[N] +=! f[N + K - 1].when([(1 <= N + K) & (9 > N + K), N + K < 99], 0.0) "
     "where N in 8, K in 3",
     np.convolve(F, np.ones(3, np.float32), "same")),
    ("y[N] +=! i[N + K - 1].when([N + K >= 1, N + K <= 8], 0.0) where N in 8, K in 3",
     np.convolve(I, np.ones(3), "same").astype(np.float32)),
    ("y[N] +=! (f[N + K - 1] * i[N + K - 1]).when([N + K >= 1, N + K <= 8], 0) "
     "where N in 8, K in 3",
     np.convolve(F * I, np.ones(3, np.float32), "same").astype(np.float32)),
    ("y[N] +=! (f[N + K - 1] * b[(N + K - 1) // 2]).when([N + K >= 1, N + K <= 8], 0) "
     "where N in 8, K in 3",
     np.convolve(F * B[np.arange(8) // 2], np.ones(3, np.float32), "same").astype(np.float32)),
    ("y[N] +=! f[N + K - 1].when([N + K >= 1, N + K < 8], 0.0) where N in 8, K in 3",
     np.convolve(F * (np.arange(8) < 7), np.ones(3), "same").astype(np.float32)),
    ("y[N] +=! f[2 * N + 2 * K - 2].when([N + K > 0, N + K < 5], 0.0) where N in 5, K in 2",
     np.array([F[0], F[0] + F[2], F[2] + F[4], F[4] + F[6], F[6]])),
    ("y[N] +=! f[b[N - K]].when([N >= K, b[N - K] >= 0, b[N - K] < 8], 0.0) where N in 8, K in 2",
     F[B] + np.append(np.float32(0), F[B][:-1])),
]  # fmt: skip


def expected_of(text: str) -> Any:
    m = GIVEN["m"]
    if text.startswith("y[A, C]"):
        result = m + I
        result[B % 3, np.arange(8)] = 9
        return result
    a, b, c = np.ogrid[:2, :2, :4]
    return F[b % 2 + a * 4 + c // 2]


def inputs_of(text: str) -> dict[str, Any]:
    names = (name for name in GIVEN if f"{name}[" in text)
    return {name: {"dtype": str(GIVEN[name].dtype), "shape": GIVEN[name].shape} for name in names}


def check(found: Any, text: str, expected: Any) -> None:
    expected = expected_of(text) if expected is None else expected
    if isinstance(expected, (np.ndarray, np.generic)):
        assert found.dtype == expected.dtype
    assert np.shape(found) == np.shape(expected)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5, err_msg=text)


@pytest.mark.parametrize(("text", "expected"), MEANINGS, ids=[text[:60] for text, _ in MEANINGS])
def test_an_expression_means(text: str, expected: Any) -> None:
    inputs = inputs_of(text)
    check(tvm_nnef.evaluate(einstein_v2(text, inputs), *map(GIVEN.get, inputs))[0], text, expected)


@pytest.mark.slow
def test_compiled_expressions_mean_the_same() -> None:
    """All statements in one model, which is built once."""
    single = [each for each in MEANINGS if each[0].startswith("y") and ";" not in each[0]]
    statements = (f"y{i}{text[1:]}" for i, (text, _) in enumerate(single))
    text = ";\n".join(statements)
    names = [f"y{i}" for i in range(len(single))]
    inputs = inputs_of(text)
    model = einstein_v2(text, inputs, extra_outputs=names)
    found = tvm_nnef.build(model, progress=False, threads=1)(*map(GIVEN.get, inputs))
    for each, (statement, expected) in zip(found, single, strict=True):
        check(each, statement, expected)


@pytest.mark.parametrize("case", [each for each in MEANINGS if "=. " in each[0]])
def test_compiled_scatters_mean_the_same(case: tuple[str, Any]) -> None:
    inputs = inputs_of(case[0])
    build = tvm_nnef.build(einstein_v2(case[0], inputs), progress=False, threads=1)
    check(build(*map(GIVEN.get, inputs))[0], *case)


TEXT = 'einstein_v2("y[N, M] +=! a[N, K] * b[K, M]", input_dict={"a": {"dtype": "float32", '
TEXT += '"shape": [4, 6]}, "b": {"dtype": "float32", "shape": [6, 2]}})\n'
GENERATOR = np.random.default_rng(3)
A2 = GENERATOR.standard_normal((4, 6)).astype(np.float32)
B2 = GENERATOR.standard_normal((6, 2)).astype(np.float32)


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        TEXT.strip(),
        f"# MatMul\nCOMPUTE_V1='- {TEXT.strip()}' make\n",
        f"- {TEXT}",
        TEXT.encode(),
        TEXT.replace("input_dict=", "").replace("[6, 2]", "(6, 1 + 1,)"),
        TEXT.replace("y[N, M] +=!", "\" r\"y[N, M]\" ''' +=! ''' \""),
    ],
)
def test_a_text_is_a_model(text: Any) -> None:
    np.testing.assert_allclose(tvm_nnef.evaluate(text, A2, B2)[0], A2 @ B2, rtol=1e-5)


def test_a_mistake_in_a_file_has_its_position(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model").write_text(TEXT.replace("b[K, M]", "c[K, M]"))
    assert main(["check", "model"]) == 1
    assert "model:1:36: error: there is no tensor 'c'" in capsys.readouterr().err


@pytest.mark.slow
def test_it_is_written_as_onnx(tmp_path: Path) -> None:
    tvm_nnef.convert(TEXT, tmp_path / "out.onnx")
    np.testing.assert_allclose(
        tvm_nnef.evaluate(tmp_path / "out.onnx", A2, B2)[0], A2 @ B2, rtol=1e-5
    )


def test_the_text_that_is_made_is_a_model_of_one_kind(tmp_path: Path) -> None:
    model = tvm_nnef.convert(TEXT)
    text = model.modules["main"].source.text
    assert tvm_nnef.check(text) == []
    assert "y[N, M] += a[N, K] * b[K, M]" in text


def test_dtypes_and_shapes_may_be_given_instead() -> None:
    x = np.ones((3, 6), np.float64)
    model = tvm_nnef.load_model(TEXT, input_shapes={"a": (3, 6)}, dtypes={"a": "float64"})
    (y,) = tvm_nnef.evaluate(model, x, B2)
    assert y.dtype == np.float64 and y.shape == (3, 2)
    (found,) = tvm_nnef.check(TEXT, input_shapes={"c": (3, 6)})
    assert "no input 'c'" in found.message


def test_outputs_have_names() -> None:
    model = einstein_v2(
        "s[N] +=! x[N, C]; t[N] = s[N] * 2; y[N, C] = x[N, C] / t[N]",
        {"x": {"dtype": "float32", "shape": [2, 3]}},
        extra_outputs=["t"],
    )
    x = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
    t, y = tvm_nnef.build(model, progress=False, threads=1)(x)
    np.testing.assert_allclose(t, 2 * x.sum(1))
    np.testing.assert_allclose(y, x / (2 * x.sum(1, keepdims=True)), rtol=1e-6)
    assert [port.name for port in tvm_nnef.compose(model).outputs] == ["t", "y"]


@pytest.mark.slow
def test_nothing_is_executed(tmp_path: Path) -> None:
    """Neither the parser nor what it calls evaluates text."""
    script = (
        "import builtins, sys\nimport tvm_nnef\n"
        f"text = {TEXT!r}\n"
        "tvm_nnef.load_model(text)\n"
        "def refuse(event, args):\n"
        "    if event in ('exec', 'compile', 'import', 'os.system', 'subprocess.Popen'):\n"
        "        raise SystemExit(f'{event} {args}')\n"
        "sys.addaudithook(refuse)\n"
        "tvm_nnef.load_model(text)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=tmp_path)


def test_a_python_call_needs_shapes_of_integers() -> None:
    with pytest.raises(NnefError, match="cannot have a dimension of n"):
        einstein_v2("y[N] = x[N]", {"x": {"dtype": "float32", "shape": ["n"]}})
    with pytest.raises(NnefError, match="has 'shap'"):
        einstein_v2("y[N] = x[N]", {"x": {"dtype": "float32", "shap": [3]}})
