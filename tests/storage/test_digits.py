"""The digits example: its files fit its text, its images are recognised, training is repeatable."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tvm_nnef.storage.container import open_container
from tvm_nnef.storage.image import load_image
from tvm_nnef.storage.metadata import read_metadata
from tvm_nnef.storage.names import variable_file_name
from tvm_nnef.storage.tensor_file import read_tensor

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "docs" / "examples" / "digits"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    pytest.importorskip("sklearn", reason="the digits are scikit-learn's")
    spec = importlib.util.spec_from_file_location("train_digits", ROOT / "scripts/train_digits.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def stored_parameters(script: ModuleType) -> dict[str, np.ndarray]:
    container = open_container(DIGITS)
    files = {name: variable_file_name(f"main.Digits.{name}") for name in script.SHAPES}
    return {name: read_tensor(container.read(file), file).array for name, file in files.items()}


def test_the_files_are_those_that_the_text_declares(script: ModuleType) -> None:
    container = open_container(DIGITS)
    text = container.read_source("main.sknd").text
    block = text.split("@variable {")[1].split("}")[0]
    declared = {
        name: tuple(int(extent) for extent in extents.split(","))
        for name, extents in re.findall(r"(\w+): real\[([\d, ]+)\];", block)
    }
    assert declared == {name: array.shape for name, array in stored_parameters(script).items()}
    variables = {name for name in container.names() if name.endswith(".dat")}
    assert variables == {variable_file_name(f"main.Digits.{name}") for name in declared}
    assert sum(container.size(name) for name in container.names()) < 300_000


def test_the_stored_network_recognises_the_held_out_images(script: ModuleType) -> None:
    digits = script.load_digits()
    x = script.network_input(digits.held_out_images)
    predicted = script.forward(stored_parameters(script), x).argmax(axis=1)
    assert len(x) == 360 and np.bincount(digits.held_out_labels).min() >= 34
    assert np.mean(predicted == digits.held_out_labels) >= 0.97


def test_each_example_image_is_held_out_and_recognised(script: ModuleType) -> None:
    metadata = read_metadata(open_container(DIGITS).read("model.json"), "model.json")
    assert metadata.labels == tuple("0123456789")
    digits, parameters = script.load_digits(), stored_parameters(script)
    held_out = script.network_input(digits.held_out_images)
    trained = script.network_input(digits.train_images)
    for digit in range(10):
        path = DIGITS / f"digit-{digit}.png"
        x = load_image(path, (1, 1, 8, 8), metadata.inputs["image"])
        same = np.isclose(held_out, x, atol=1e-6).all(axis=(1, 2, 3))
        assert digit in digits.held_out_labels[same]
        assert not np.isclose(trained, x, atol=1e-6).all(axis=(1, 2, 3)).any()
        assert script.forward(parameters, x).argmax() == digit


def test_training_again_gives_the_same_parameters(script: ModuleType) -> None:
    digits = script.load_digits()
    x, labels = script.network_input(digits.train_images)[:320], digits.train_labels[:320]
    first, second = (script.train(x, labels, epochs=2) for _ in range(2))
    assert all(first[name].tobytes() == second[name].tobytes() for name in first)


def test_gradients_agree_with_differences(script: ModuleType) -> None:
    generator = np.random.default_rng(0)
    parameters = {
        name: value.astype(np.float64) + 0.05 * generator.standard_normal(value.shape)
        for name, value in script.initial_parameters(generator).items()
    }
    x, labels = generator.random((3, 1, 8, 8)), np.array([1, 4, 9])

    def loss(changed: dict[str, np.ndarray]) -> float:
        logits = script.forward(changed, x)
        chosen = logits[np.arange(3), labels]
        return float(np.mean(np.log(np.exp(logits).sum(axis=1)) - chosen))

    for name, gradient in script.gradients(parameters, x, labels).items():
        direction = generator.standard_normal(gradient.shape)
        ahead, after = (
            loss({**parameters, name: parameters[name] + step * direction})
            for step in (1e-6, -1e-6)
        )
        assert np.sum(gradient * direction) == pytest.approx((ahead - after) / 2e-6, rel=1e-4)
