"""Tensor files: item types, quantized codes, shapes and labels, and files that are damaged."""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from numpy.typing import NDArray

import tvm_nnef
from tvm_nnef.converters.nnef1 import convert, quantization, typing
from tvm_nnef.diagnostics import MAX_REPORTED, Diagnostic, NnefError, did_you_mean
from tvm_nnef.storage.container import Container, open_files
from tvm_nnef.storage.tensor_file import ItemType, TensorFile, write_tensor

Folder = Callable[..., Path]

GRAPH = """version 1.0;
graph g(x) -> (y)
{{
    x = external<{0}>(shape = {1});
    w = variable<{0}>(shape = {1}, label = 'a/w');
    y = {2};
}}
"""
SUM = GRAPH.format("scalar", "[2, 3]", "add(x, w)")
ONES = np.ones((2, 3), np.float32)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """A model of a graph and files by name."""

    def write(graph: str = SUM, **files: bytes | str) -> Path:
        (tmp_path / "graph.nnef").write_text(graph)
        (tmp_path / "a").mkdir(exist_ok=True)
        for name, content in files.items():
            path = tmp_path / ("graph.quant" if name == "quant" else f"a/{name}.dat")
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        return tmp_path

    return write


def header(
    item_type: int, bits: int, data: bytes, parameters: bytes = b"", shape: tuple[int, ...] = (2, 3)
) -> bytes:
    """A file by the words of section 5.2."""
    extents = (*shape, *[0] * (8 - len(shape)))
    head = struct.pack(
        "<2s2BII8III", b"N\xef", 1, 0, len(data), len(shape), *extents, bits, item_type
    )
    return head + parameters.ljust(32, b"\0") + bytes(44) + data


def value(path: Path) -> NDArray[np.generic]:
    """The variable that a model reads."""
    (found,) = convert(path).variables.values()
    return np.asarray(found)


def faults(path: Path) -> tuple[Diagnostic, ...]:
    with pytest.raises(NnefError) as caught:
        convert(path)
    return caught.value.diagnostics


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_scalars_are_float32(dtype: type[np.generic], folder: Folder) -> None:
    array = np.linspace(-1, 1, 6).reshape(2, 3).astype(dtype)
    model = convert(folder(w=write_tensor(array)))
    (y,) = tvm_nnef.evaluate(model, ONES)
    assert y.dtype == np.float32
    np.testing.assert_array_equal(y, array.astype(np.float32) + 1)


@pytest.mark.parametrize(
    ("item_type", "bits", "expected"), [(1, 4, 15), (4, 4, -1), (1, 33, 2**33 - 1)]
)
def test_integers_of_any_width(item_type: int, bits: int, expected: int, folder: Folder) -> None:
    graph = GRAPH.format("integer", "[2, 3]", "copy(w)")
    ones = np.full(-(-6 * bits // 8), 255, np.uint8).tobytes()
    found = value(folder(graph, w=header(item_type, bits, ones)))
    np.testing.assert_array_equal(found, np.full((2, 3), expected))
    assert found.dtype == (np.int64 if bits > 32 else np.int32)


def test_unsigned_type_with_the_deprecated_sign(folder: Folder) -> None:
    graph = GRAPH.format("integer", "[2, 3]", "copy(w)")
    data = header(1, 8, bytes([255] * 6), struct.pack("<I", 1))
    np.testing.assert_array_equal(value(folder(graph, w=data)), np.full((2, 3), -1))


@pytest.mark.parametrize(("bits", "data"), [(1, b"\xa8"), (8, bytes([1, 0, 7, 0, 1, 0]))])
def test_logical_values(bits: int, data: bytes, folder: Folder) -> None:
    graph = GRAPH.format("logical", "[2, 3]", "copy(w)")
    found = value(folder(graph, w=header(5, bits, data)))
    np.testing.assert_array_equal(found, [[True, False, True], [False, True, False]])


CODES = np.array([[0, 1, 7], [8, 14, 15]], np.uint8)


def quantized(item_type: ItemType, array: NDArray[np.generic], parameters: bytes = b"") -> bytes:
    return write_tensor(TensorFile(array, item_type, 4, parameters.ljust(32, b"\0")))


def test_deprecated_linear_quantization(folder: Folder) -> None:
    """Section 5.2: x = q / r * (max - min) + min, r = 2 ** b - 1."""
    data = quantized(ItemType.QUANTIZED_UINT, CODES, struct.pack("<2f", -1.0, 2.0))
    np.testing.assert_allclose(value(folder(w=data)), CODES / 15 * 3 - 1, rtol=1e-6)


@pytest.mark.parametrize("signed", [False, True])
def test_deprecated_logarithmic_quantization(signed: bool, folder: Folder) -> None:
    """Section 5.2: x = 2 ** (q + m - r), m = ceil(log2(max)); a sign bit of the width before it."""
    largest = 6.0
    parameters = struct.pack("<2f", -largest if signed else 0.0, largest)
    two_complement = CODES.astype(np.int8) - np.where(CODES > 7, 16, 0).astype(np.int8)
    data = quantized(ItemType.QUANTIZED_INT, two_complement, parameters)
    magnitude, r = (CODES & 7, 7) if signed else (CODES, 15)
    expected = 2.0 ** (magnitude.astype(float) + 3 - r) * np.where(signed & (CODES > 7), -1, 1)
    np.testing.assert_allclose(value(folder(w=data)), expected, rtol=1e-6)


QUANTIZERS = {
    "linear_quantize(min = -1.0, max = 2.0, bits = 4)": CODES / 15 * 3 - 1,
    "min_max_linear_quantize(min = -1.0, max = 2.0, bits = 4, signed = false, symmetric = false)": (
        CODES / 15 * 3 - 1
    ),
    "zero_point_linear_quantize(zero_point = 8, scale = 0.5, bits = 4, signed = false, "
    "symmetric = false)": ((CODES.astype(float) - 8) * 0.5),
    "logarithmic_quantize(max = 6.0, bits = 4)": 2.0 ** (CODES.astype(float) + 3 - 15),
}


@pytest.mark.parametrize("quantizer", QUANTIZERS)
def test_the_quantization_file_interprets_codes(quantizer: str, folder: Folder) -> None:
    """It prevails over the parameters of the header (sections 5.2 and 7.1)."""
    data = quantized(ItemType.QUANTIZED_UINT, CODES, struct.pack("<2f", -9.0, 9.0))
    path = folder(w=data, quant=f'"w": {quantizer};')
    np.testing.assert_allclose(value(path), QUANTIZERS[quantizer], rtol=1e-6)


def test_signed_codes(folder: Folder) -> None:
    codes = np.array([[-8, -1, 0], [1, 6, 7]], np.int8)
    signed = "bits = 4, signed = true, symmetric = false);"
    line = f'"w": zero_point_linear_quantize(zero_point = 1, scale = 0.25, {signed}'
    path = folder(w=quantized(ItemType.QUANTIZED_INT, codes), quant=line)
    np.testing.assert_allclose(value(path), (codes - 1.0) * 0.25)
    line = f'"w": min_max_linear_quantize(min = -2.0, max = 2.0, {signed}'
    path = folder(w=quantized(ItemType.QUANTIZED_INT, codes), quant=line)
    np.testing.assert_allclose(value(path), (codes + 8.0) / 15 * 4 - 2, rtol=1e-6)


def test_codes_in_wider_items(folder: Folder) -> None:
    """The bits of the quantizer count: r = 2 ** 4 - 1, m = 3."""
    line = "'w': logarithmic_quantize(max = 6.0, bits = 4);"
    path = folder(w=header(2, 8, CODES.tobytes()), quant=line)
    np.testing.assert_allclose(value(path), 2.0 ** (CODES.astype(float) + 3 - 15))


@pytest.mark.parametrize(
    ("item_type", "quantizer"),
    [
        (2, "linear_quantize(min = -1.0, max = 2.0, bits = 3)"),
        (2, "logarithmic_quantize(max = 2.0, bits = 3)"),
        (2, "zero_point_linear_quantize(zero_point = 0, scale = 1.0, bits = 4, signed = true, "
         "symmetric = false)"),
        (3, "linear_quantize(min = -1.0, max = 2.0, bits = 4)"),
    ],
)  # fmt: skip
def test_codes_that_a_quantizer_does_not_have(
    item_type: int, quantizer: str, folder: Folder
) -> None:
    codes = CODES.astype(np.int8) if item_type == 2 else CODES.astype(np.int8) - 8
    (found,) = faults(folder(w=header(item_type, 8, codes.tobytes()), quant=f"'w': {quantizer};"))
    assert "and the quantizer has those from" in found.message
    assert found.span is not None and found.span.source.path.endswith("graph.quant")


def test_a_line_for_a_tensor_of_another_type(folder: Folder) -> None:
    graph = SUM.replace("y = add(x, w);", "b = lt(x, w); y = select(b, x, w);")
    quant = "\n'b': linear_quantize(min = 0.0, max = 1.0, bits = 8);"
    (found,) = faults(folder(graph, w=GOOD, quant=quant))
    assert "not scalars" in found.message
    assert found.span is not None and found.line == 2
    assert found.span.source.path.endswith("graph.quant")


GOOD = write_tensor(ONES)

DAMAGED = {
    "missing": ({}, "has no file 'a/w.dat'", 5),
    "truncated": ({"w": GOOD[:-1]}, "cut off", 5),
    "only a header": ({"w": GOOD[:100]}, "header of 128 bytes", 5),
    "too long": ({"w": GOOD + b"\0"}, "too long", 5),
    "magic number": ({"w": b"X" + GOOD[1:]}, "4e ef", 5),
    "rank": ({"w": GOOD[:8] + struct.pack("<I", 9) + GOOD[12:]}, "rank 9", 5),
    "size": ({"w": header(0, 32, bytes(24), shape=(2**31, 2**31, 2**31))}, "takes", 5),
    "bits": ({"w": header(0, 65, bytes(49))}, "bits", 5),
    "shape": ({"w": write_tensor(ONES.T)}, "has the shape [2, 3], its file", 5),
    "type": ({"w": write_tensor(ONES.astype(np.int32))}, "of type scalar is stored as int", 5),
    "codes": (
        {"w": quantized(ItemType.QUANTIZED_UINT, CODES)},
        "nothing says what they stand for",
        5,
    ),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_files(case: str, folder: Folder) -> None:
    files, message, line = DAMAGED[case]
    (found,) = faults(folder(**files))
    assert message in found.message
    assert found.hint
    spans = [found.span, *(each.span for each in found.notes)]
    assert [each.source.position(each.start)[0] for each in spans if each] == [line]


def test_numbers_beyond_float32(folder: Folder) -> None:
    (found,) = faults(folder(w=write_tensor(np.full((2, 3), 1e300))))
    assert "beyond float32" in found.message


def test_a_file_in_another_case_is_found(folder: Folder) -> None:
    np.testing.assert_array_equal(value(folder(W=GOOD)), ONES)


def test_files_are_listed_once(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for each label, of which a model may have thousands."""
    listed: list[str] = []
    graph = SUM.replace(
        "y = add(x, w)", "v = variable(shape = [2, 3], label = 'a/v'); y = add(v, w)"
    )
    path = folder(graph, W=GOOD, V=GOOD)
    container = type(open_files(path))
    names = container.names

    def counted(self: Container) -> tuple[str, ...]:
        listed.append(self.path)
        return names(self)

    monkeypatch.setattr(container, "names", counted)
    assert len(convert(path).variables) == 2
    assert len(listed) == 1


@pytest.mark.parametrize("module", [quantization, typing])
def test_no_hints_for_what_is_not_reported(
    module: ModuleType, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The nearest of many names takes long to find."""
    calls: list[str] = []

    def counted(name: str, known: Collection[str], cutoff: float = 0.6) -> str | None:
        calls.extend([name] * bool(known))
        return did_you_mean(name, known, cutoff)

    monkeypatch.setattr(module, "did_you_mean", counted)
    wrong = 3 * MAX_REPORTED
    if module is typing:
        path = folder(
            "".join([SUM[:-2], *(f"a{n} = neg(b{n});" for n in range(wrong)), "}"]), w=GOOD
        )
    else:
        lines = (f"'v{n}': linear_quantize(min = 0.0, max = 1.0, bits = 8);" for n in range(wrong))
        path = folder(w=GOOD, quant="".join(lines))
    assert len(faults(path)) == MAX_REPORTED + 1
    assert len(calls) == MAX_REPORTED


def test_labels_are_shared_without_regard_to_case(folder: Folder) -> None:
    graph = SUM.replace("y = add", "v = variable(shape = [2, 3], label = 'A/W'); y = add")
    model = convert(folder(graph.replace("(x, w)", "(v, w)"), w=GOOD))
    (y,) = tvm_nnef.evaluate(model, ONES)
    np.testing.assert_array_equal(y, 2 * ONES)
    other = graph.replace("v = variable(shape = [2, 3]", "v = variable(shape = [3, 2]")
    (found,) = faults(folder(other, w=GOOD))
    assert "differ in shape" in found.message
    assert found.notes


def test_variables_of_one_label_have_one_state(folder: Folder) -> None:
    graph = SUM.replace("y = add", "v = variable(shape = [2, 3], label = 'A/W'); y = add")
    path = folder(graph.replace("(x, w);", "(x, v); z = update(w, y);"), w=GOOD)
    graph = tvm_nnef.compose(path)
    ((variable, _),) = graph.updates
    assert [each.name for each in graph.variables] == [variable.name]
    np.testing.assert_array_equal(tvm_nnef.evaluate(path, ONES)[0], 2 * ONES)


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        ("z = update(y, x);", "not a variable"),
        ("z = update(value = x, variable = w); u = update(z, x);", "not a variable"),
        ("z = update(w, x); u = update(w, y);", "updated twice"),
    ],
)
def test_only_variables_are_updated_and_once(statements: str, message: str, folder: Folder) -> None:
    (found,) = faults(folder(SUM.replace("(x, w);", f"(x, w); {statements}"), w=GOOD))
    assert message in found.message
    assert (found.line, found.hint != "") == (6, True)


@pytest.mark.parametrize("label", ["", "../w", "a b", "a*"])
def test_labels_that_are_not_valid(label: str, folder: Folder) -> None:
    (found,) = faults(folder(SUM.replace("a/w", label), w=GOOD))
    assert "label" in found.message or "outside" in found.message
    assert found.hint


def test_all_faulty_variables_are_reported(folder: Folder) -> None:
    graph = SUM.replace("y = ", "v = variable(shape = [1], label = 'v'); y = ")
    assert len(faults(folder(graph, w=GOOD[:-1]))) == 2


def test_a_text_has_no_values() -> None:
    with pytest.raises(NnefError, match="no values for the variable 'a/w'"):
        convert(SUM)


def test_problems_of_graph_shapes_and_files_are_reported_at_once(folder: Folder) -> None:
    graph = """extension KHR_enable_fragment_definitions;
fragment f(x: tensor<scalar>) -> (y: tensor<scalar>) { y = foo(x); }
fragment g(x: tensor<scalar>) -> (y: tensor<scalar>) { y = f(x); }
graph g(x) -> (y)
{
    x = external(shape = [2, 3]);
    w = variable(shape = [2, 3], label = 'a/w');
    q = variable(shape = [2, 3], label = 'a/q');
    a = g(x);
    b = add(a, w);
    c = transpose(x, axes = [7]);
    d = select(true, c, b);
    y = matmul(x, q);
}
"""
    quant = "'q': linear_quantize(min = 0.0, max = 1, bits = 8);\n'z': copy();\n"
    found = faults(folder(graph, quant=quant, q=write_tensor(ONES)))
    places = [(Path(each.span.source.path).name, each.line) for each in found if each.span]
    assert places == [
        *(("graph.nnef", line) for line in (2, 4, 7, 11)),
        *(("graph.quant", line) for line in (1, 2)),
    ]
