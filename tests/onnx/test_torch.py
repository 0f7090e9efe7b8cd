"""PyTorch models, exported in memory: converted and built, with PyTorch's own results."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import namedtuple
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


class Returning(torch.nn.Module):
    """What a function of one tensor returns."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


Pair = namedtuple("Pair", ["mean", "total"])
OUTPUTS: dict[str, tuple[Any, Any, list[str]]] = {
    "a dictionary": (lambda x: {"b": x + 1, "a": x * 2}, None, ["b", "a"]),
    "nested": (lambda x: {"y": x + 1, "past": [x, (x * 3,)]}, None, ["y", "past_0", "past_1_0"]),
    "a named tuple": (lambda x: Pair(x + 1, x * 2), None, ["mean", "total"]),
    "names of other tensors": (lambda x: {"mul": x + 1, "add": x * 2}, None, ["mul", "add"]),
    "an input": (lambda x: {"same": x, "more": x + 1}, None, ["same", "more"]),
    "given": (lambda x: (x + 1, x * 2), ["p", "q"], ["p", "q"]),
}  # fmt: skip


@pytest.mark.parametrize("case", OUTPUTS)
def test_outputs_have_the_names_that_are_returned_or_given(case: str) -> None:
    function, given, names = OUTPUTS[case]
    x = torch.tensor([1.0, 2.0])
    model = tvm_nnef.convert(Returning(function), example_inputs=x, output_names=given)
    assert (list(model.inputs), list(model.outputs)) == (["x"], names)
    expected = torch.utils._pytree.tree_leaves(function(x))
    for ours, theirs in zip(tvm_nnef.evaluate(model, x.numpy()), expected, strict=True):
        agrees(ours, theirs)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["p"], "2 outputs, got 1"),
        (["p", "p"], "another output"),
        (["x", "p"], "an input"),
        (2, "not texts"),
        (iter("pq"), "not texts"),
    ],
)
def test_output_names_that_do_not_fit_are_errors(names: Any, message: str) -> None:
    module = Returning(lambda x: (x + 1, x * 2))
    with pytest.raises(tvm_nnef.NnefError, match=message):
        tvm_nnef.convert(module, example_inputs=IMAGE, output_names=names)


def in_a_loop(x: Any) -> Any:
    h = x[0]
    for step in range(1, x.shape[0]):
        h = torch.tanh(h + x[step])
    return h


@pytest.mark.parametrize("asked", ["time", torch.export.Dim("time"), torch.export.Dim.DYNAMIC])
def test_a_dimension_that_pytorch_fixes_is_an_error(asked: Any) -> None:
    with pytest.raises(tvm_nnef.NnefError) as found:
        tvm_nnef.convert(
            Returning(in_a_loop), example_inputs=torch.rand(5, 3), dynamic_shapes=({0: asked},)
        )
    assert re.search(r"fixed it to 5|static shape of 5", str(found.value))
    assert "leave the dimension out of 'dynamic_shapes'" in str(found.value)


def test_a_failed_export_prints_nothing_and_logs_what_pytorch_writes() -> None:
    code = (
        "import logging, torch, tvm_nnef\n"
        "class B(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        return x if x.sum() > 0 else -x\n"
        "try:\n"
        "    tvm_nnef.convert(B(), example_inputs=torch.ones(2))\n"
        "except tvm_nnef.NnefError as problem:\n"
        "    assert 'data-dependent' in str(problem), problem\n"
    )
    verbose = "import logging; logging.basicConfig(); "
    verbose += "logging.getLogger('tvm_nnef').setLevel(logging.DEBUG)\n"
    for before in ("", verbose):
        command = [sys.executable, "-c", before + code]
        found = subprocess.run(command, capture_output=True, text=True, check=True)
        assert ("torch" in found.stdout + found.stderr) == bool(before)
