"""A network of torch to an ONNX file, by both of torch's exporters, and what it must give."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef

Sizes = Mapping[str, int]
BOUND = 64
"""The bound of a dynamic dimension; the images of the networks are as large."""


@dataclass(frozen=True)
class Network:
    """A network and what it takes: by input, a kind of values and a shape with names in it.

    ``sizes`` are the dimensions that the names stand for, from export on; the others are run with a
    model whose dimensions are open. ``call`` gives the outputs for inputs by position.
    """

    make: Callable[[], Any]
    inputs: Mapping[str, tuple[str, tuple[int | str, ...]]]
    sizes: Sequence[Sizes]
    call: Callable[..., Any]
    opset: int | None = None

    def values(self, sizes: Sizes) -> tuple[Any, ...]:
        """Random inputs."""
        return tuple(_values(kind, shape, sizes) for kind, shape in self.inputs.values())


def _values(kind: str, shape: Sequence[int | str], sizes: Sizes) -> Any:
    """Reals, identifiers of words, a mask whose last item is off, or falling lengths."""
    import torch

    extents = [sizes[each] if isinstance(each, str) else each for each in shape]
    match kind:
        case "real":
            return torch.randn(extents)
        case "ids":
            return torch.randint(1, 90, extents)
        case "mask":
            mask = torch.ones(extents, dtype=torch.int64)
            mask[0, -1] = 0
            return mask
    return torch.arange(extents[0] + 1, 1, -1)


@pytest.fixture(scope="session")
def network() -> type[Network]:
    """The class, for the tables of tests."""
    return Network


@pytest.fixture
def agrees(tmp_path: Path) -> Callable[..., None]:
    """Exports a network, and holds what is converted against torch and ONNX Runtime.

    The model is written to a folder and read again; the evaluator and the compiled model must
    agree with torch for each of the sizes. Skips, after what can be compared, where ONNX Runtime
    does not give what torch gives: then the exporter has erred, or written as constants sizes that
    it met.
    """

    def check(network: Network, exporter: str, open_: bool, evaluate: bool = True) -> None:
        file = tmp_path / "model.onnx"
        module = _module(network)
        with _quietly():
            _export(module, network, file, exporter, open_)
        runs, objection = _runs(module, network, file, network.sizes[: None if open_ else 1])
        if runs:
            tvm_nnef.convert(file, tmp_path / "model.nnef2", bounds=BOUND if open_ else 0)
            model = tvm_nnef.load_model(tmp_path / "model.nnef2")
            compiled = tvm_nnef.build(model, progress=False)
            for inputs, expected in runs:
                _close(compiled(*inputs), expected)
                if evaluate:
                    _close(tvm_nnef.evaluate(model, *inputs), expected)
        if objection:
            pytest.skip(f"ONNX Runtime does not agree with torch at {objection}")

    return check


def _module(network: Network) -> Any:
    import torch
    from torch import nn

    class Wrapped(nn.Module):
        """Takes its inputs by position."""

        def __init__(self) -> None:
            super().__init__()
            self.model = network.make()

        def forward(self, *values: Any) -> Any:
            return network.call(self.model, *values)

    torch.manual_seed(0)
    torch.backends.mha.set_fastpath_enabled(False)  # it cannot be exported
    module = Wrapped()
    _calibrate(module, network)
    return module.eval()


def _calibrate(module: Any, network: Network) -> None:
    """Weights and running statistics that keep activations in range."""
    import torch
    from torch import nn

    norms = [each for each in module.modules() if isinstance(each, nn.modules.batchnorm._BatchNorm)]
    if not norms:
        return
    for each in module.modules():
        if isinstance(each, (nn.Conv1d, nn.Conv2d)):
            nn.init.kaiming_normal_(each.weight)
    for each in norms:
        each.momentum = None
    module.train()
    with torch.no_grad():
        module(*network.values({**network.sizes[0], "batch": 4}))


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


def _export(module: Any, network: Network, file: Path, exporter: str, open_: bool) -> None:
    import torch

    names = {
        name: {axis: extent for axis, extent in enumerate(shape) if isinstance(extent, str)}
        for name, (_, shape) in network.inputs.items()
    }
    options: dict[str, Any] = {"dynamo": exporter == "dynamo", "input_names": list(network.inputs)}
    if exporter == "dynamo":
        options |= {"external_data": False, "verbose": False}
        if open_:
            dims = ({axis: torch.export.Dim(each) for axis, each in axes.items()}
                    for axes in names.values())  # fmt: skip
            options["dynamic_shapes"] = (tuple(dims),)
    else:
        options["opset_version"] = network.opset or 17
        if open_:
            options["dynamic_axes"] = names
    with torch.no_grad():
        torch.onnx.export(module, network.values(network.sizes[0]), file, **options)


def _runs(
    module: Any, network: Network, file: Path, sizes: Sequence[Sizes]
) -> tuple[list[tuple[list[np.ndarray], list[np.ndarray]]], str]:
    """Inputs in the order of the file and what torch gives, for sizes up to the first that fails.

    Then the sizes at which ONNX Runtime does not give the same, and how it differs.
    """
    import onnxruntime
    import torch

    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    problems = onnxruntime.capi.onnxruntime_pybind11_state
    runs = []
    for each in sizes:
        values = network.values(each)
        with torch.no_grad():
            found = module(*values)
        outputs = found if isinstance(found, (tuple, list)) else [found]
        expected = [output.numpy() for output in outputs]
        given = dict(zip(network.inputs, (value.numpy() for value in values), strict=True))
        feeds = {port.name: given[port.name] for port in session.get_inputs()}
        try:
            _close(session.run(None, feeds), expected)
        except (AssertionError, problems.Fail, problems.InvalidArgument) as cause:
            return runs, f"{dict(each)}: {str(cause)[:200]}"
        runs.append((list(feeds.values()), expected))
    return runs, ""


def _close(found: Sequence[Any], expected: Sequence[np.ndarray]) -> None:
    for ours, theirs in zip(map(np.asarray, found), expected, strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        if theirs.dtype.kind != "f":
            np.testing.assert_array_equal(ours, theirs)
            continue
        scale = float(np.abs(theirs).max(initial=0.0))
        assert np.isfinite(scale)
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4 * scale)
