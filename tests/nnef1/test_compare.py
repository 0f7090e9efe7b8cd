"""``compare`` names the operation of an NNEF 1 model and its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef

TEXT = """version 1.0;
extension KHR_enable_fragment_definitions, KHR_enable_operator_expressions;
fragment gate(x: tensor<scalar>) -> (y: tensor<scalar>)
{
    y = {body};
}
graph net(x) -> (z)
{
    x = external(shape = [4]);
    scaled = x * 2.0;
    z = {value};
}
""".replace("definitions, KHR", "definitions KHR")
X = np.array([0.5, -1.0, 2.0, 0.1], np.float32)


def moved(builder: Any, operation: Any, operands: Any) -> Any:
    from tvm import relax

    right = builder.emit(relax.op.sigmoid(operands[0]))
    return relax.op.add(right, relax.const(0.5, "float32"))


@pytest.mark.parametrize(
    ("body", "value", "operation"),
    [
        ("neg(x)", "sigmoid(scaled)", "sigmoid"),
        ("neg(sigmoid(x))", "gate(scaled)", "gate"),
        ("neg(x)", "1.0 - sigmoid(scaled)", "expression"),
    ],
)
def test_a_difference_has_operation_and_line(
    body: str, value: str, operation: str, tmp_path: Path
) -> None:
    text = TEXT.replace("{body}", body).replace("{value}", value)
    (tmp_path / "graph.nnef").write_text(text)
    lowerings = {"nn.sigmoid": moved}
    report = tvm_nnef.compare(tmp_path, X, lowerings=lowerings, progress=False)
    row = report.first_difference
    assert row is not None and row.operator == "nn.sigmoid" and row.origin is not None
    found = report.diagnostic()
    assert found is not None
    note = found.notes[0].message
    assert f"NNEF 1 operation '{tmp_path / 'graph.nnef'}:11' ({operation})" in note
    assert row.to_json()["source"]["node"].endswith("graph.nnef:11")
    converted = tvm_nnef.convert(tmp_path)
    again = tvm_nnef.compare(converted, X, lowerings=lowerings, progress=False)
    assert again.first_difference is not None
    assert again.first_difference.origin == row.origin
