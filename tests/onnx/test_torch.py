"""PyTorch models, exported in memory: converted and built, with PyTorch's own results."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.formats import registry

torch: Any = pytest.importorskip("torch")
pytest.importorskip("onnxscript")


def network() -> Any:
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3, padding=1),
        torch.nn.BatchNorm2d(4),
        torch.nn.ReLU(),
        torch.nn.Dropout(0.5),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(4, 2),
    )


class Difference(torch.nn.Module):
    """Named arguments, whose order matters."""

    def forward(self, left: Any, right: Any) -> Any:
        return left - 2 * right


IMAGE = torch.rand(1, 3, 8, 8)


def agrees(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_a_module_is_built_from_example_inputs() -> None:
    module = network()
    module.train()
    module[0].eval()
    exe = tvm_nnef.build(module, example_inputs=(IMAGE,), progress=False)
    assert [part.training for part in module][:4] == [False, True, True, True]
    agrees(exe(IMAGE)[0], module.eval()(IMAGE))


def test_an_exported_program_needs_no_example_inputs(tmp_path: Path) -> None:
    module = network().eval()
    program = torch.export.export(module, (IMAGE,))
    model = tvm_nnef.convert(program, tmp_path / "converted")
    assert (tmp_path / "converted" / "main.sknd").is_file()
    (found,) = tvm_nnef.evaluate(model, IMAGE.numpy())
    agrees(found, module(IMAGE))


def test_example_inputs_are_given_by_name() -> None:
    left, right = torch.ones(2), torch.full((2,), 5.0)
    model = tvm_nnef.convert(Difference(), example_inputs={"right": right, "left": left})
    assert tvm_nnef.evaluate(model, {"left": left.numpy(), "right": right.numpy()})[0][0] == -9


def test_a_dimension_is_dynamic_up_to_a_bound() -> None:
    module = network().eval()
    shapes = ({0: torch.export.Dim("batch", max=4)},)
    images = torch.rand(2, 3, 8, 8)
    exe = tvm_nnef.build(
        module,
        example_inputs=(images,),
        dynamic_shapes=shapes,
        bounds={"batch": 4},
        progress=False,
    )
    for count in (2, 3):
        batch = torch.rand(count, 3, 8, 8)
        agrees(exe(batch)[0], module(batch))


def test_dynamic_dimensions_of_a_program_are_named() -> None:
    shapes = ({0: torch.export.Dim("batch", max=4)},)
    module = network().eval()
    program = torch.export.export(module, (torch.rand(2, 3, 8, 8),), dynamic_shapes=shapes)
    model = tvm_nnef.convert(program, dynamic_shapes=shapes, bounds={"batch": 4})
    batch = torch.rand(3, 3, 8, 8)
    agrees(tvm_nnef.evaluate(model, batch.numpy())[0], module(batch))


def test_results_go_back_to_pytorch_without_a_copy() -> None:
    module = network().eval()
    exe = tvm_nnef.build(module, example_inputs=IMAGE, progress=False)
    shared = torch.from_dlpack(exe.tensors(IMAGE)[0])
    assert torch.allclose(shared, module(IMAGE), rtol=1e-4, atol=1e-5)
    buffer = torch.empty(1, 2)
    assert exe(IMAGE, out=buffer)[0] is buffer
    assert torch.equal(buffer, shared)


class Branching(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return x if x.sum() > 0 else -x


WRONG: dict[str, tuple[Any, dict[str, Any], str]] = {
    "no example inputs": (torch.nn.ReLU(), {}, "needs example inputs"),
    "example inputs of a program": (
        torch.export.export(torch.nn.ReLU(), (IMAGE,)),
        {"example_inputs": (IMAGE,)},
        "takes no example inputs",
    ),
    "not exportable": (Branching(), {"example_inputs": (IMAGE,)}, "PyTorch cannot export"),
    "an unknown option": (torch.nn.ReLU(), {"example_input": (IMAGE,)}, "'example_inputs'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_exported_is_an_error(case: str) -> None:
    source, options, message = WRONG[case]
    with pytest.raises(tvm_nnef.NnefError, match=message):
        tvm_nnef.convert(source, **options)


def test_the_format_is_detected_from_the_object() -> None:
    assert registry.open_source(network()).format.name == "torch"


def test_the_exporter_prints_nothing() -> None:
    code = "import torch, tvm_nnef; tvm_nnef.convert(torch.nn.ReLU(), example_inputs=torch.ones(2))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout + found.stderr == ""
