"""Train the classifier of handwritten digits in ``docs/examples/digits``, and write it there.

In go the 8x8 digit images that scikit-learn bundles; out comes an NNEF 2 model folder with its
variables, ``model.json`` and one held-out image of each class. The network is trained with plain
NumPy. The same seed gives the same bytes on the same machine. Nothing here uses TVM, and how the
stored model computes is measured by ``measure_digits.py``.
"""

from __future__ import annotations

import argparse
import io
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from tvm_nnef.storage.metadata import ImageInput, Metadata, write_metadata
from tvm_nnef.storage.names import variable_file_name
from tvm_nnef.storage.tensor_file import write_tensor
from tvm_nnef.storage.write import write_container

Floats = NDArray[np.float32]
Parameters = dict[str, Floats]

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "examples" / "digits"
SEED = 7
EPOCHS = 20
BATCH = 32
CLASSES = 10
SCALE = 1 / 255

MODEL = """\
import nn, layout;

# Handwritten digits of 8x8 pixels, trained by scripts/train_digits.py on scikit-learn's images.
graph Digits {
    @attrib {
        batch: int = 1;
    }
    @input {
        image: real[batch, 1, 8, 8];
    }
    @output {
        probabilities: real[batch, 10];
    }
    @variable {
VARIABLES
    }
    @compose {
        conv1 = nn.conv{padding=1}(image, kernel1, bias1);
        relu1 = nn.relu(conv1);
        pool1 = nn.max_pool{size=2, stride=2, padding=0}(relu1);
        conv2 = nn.conv{padding=1}(pool1, kernel2, bias2);
        relu2 = nn.relu(conv2);
        pool2 = nn.max_pool{size=2, stride=2, padding=0}(relu2);
        flat = layout.flatten{axis=1}(pool2);
        linear3 = nn.linear(flat, weight3, bias3);
        relu3 = nn.relu(linear3);
        linear4 = nn.linear(relu3, weight4, bias4);
        probabilities = nn.softmax(linear4);
    }
}
"""

SHAPES: dict[str, tuple[int, ...]] = {
    "kernel1": (16, 1, 3, 3),
    "bias1": (16,),
    "kernel2": (32, 16, 3, 3),
    "bias2": (32,),
    "weight3": (64, 128),
    "bias3": (64,),
    "weight4": (10, 64),
    "bias4": (10,),
}


class Digits(NamedTuple):
    """The images as bytes, shape ``(count, 8, 8)``, and their classes; one fifth is held out."""

    train_images: NDArray[np.uint8]
    train_labels: NDArray[np.int64]
    held_out_images: NDArray[np.uint8]
    held_out_labels: NDArray[np.int64]


def load_digits() -> Digits:
    """The digits with pixels from 0 to 255, divided the same way every time."""
    from sklearn.datasets import load_digits as load
    from sklearn.model_selection import train_test_split

    bunch = load()
    images = np.round(bunch.images * (255 / 16)).astype(np.uint8)
    train, held_out = train_test_split(
        np.arange(len(images)), test_size=0.2, stratify=bunch.target, random_state=SEED
    )
    return Digits(images[train], bunch.target[train], images[held_out], bunch.target[held_out])


def network_input(images: NDArray[np.uint8]) -> Floats:
    """Images as the network takes them, ``(count, 1, 8, 8)``; ``model.json`` says the same."""
    return (images[:, None] * SCALE).astype(np.float32)


def initial_parameters(generator: np.random.Generator) -> Parameters:
    """He initialisation; biases start at zero."""
    parameters = {}
    for name, shape in SHAPES.items():
        deviation = (2 / np.prod(shape[1:])) ** 0.5 if len(shape) > 1 else 0.0
        parameters[name] = (generator.standard_normal(shape) * deviation).astype(np.float32)
    return parameters


def _patches(x: Floats) -> Floats:
    """The 3x3 neighbourhoods of a padded image: ``(n, h, w, channels * 9)``."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows: Floats = sliding_window_view(padded, (3, 3), axis=(2, 3)).transpose(0, 2, 3, 1, 4, 5)
    return windows.reshape(*windows.shape[:3], -1)


def _conv_relu_pool(x: Floats, kernel: Floats, bias: Floats) -> tuple[Floats, Floats, Floats]:
    """The patches, the result, and of each window of 2x2 the share each element has in it."""
    patches = _patches(x)
    y = np.maximum(patches @ kernel.reshape(len(kernel), -1).T + bias, 0).transpose(0, 3, 1, 2)
    n, c, h, w = y.shape
    windows = y.reshape(n, c, h // 2, 2, w // 2, 2)
    pooled = windows.max(axis=(3, 5))
    first = (windows == pooled[:, :, :, None, :, None]) & (windows > 0)
    share = first / np.maximum(first.sum(axis=(3, 5), keepdims=True), 1)
    return patches, pooled, share.astype(np.float32)


def _conv_gradients(
    patches: Floats, share: Floats, gradient: Floats, kernel: Floats
) -> tuple[Floats, Floats, Floats]:
    """Gradients of the kernel, the bias and the input of :func:`_conv_relu_pool`."""
    spread = share * gradient[:, :, :, None, :, None]
    n, c, h, _, w, _ = spread.shape
    full = spread.reshape(n, c, 2 * h, 2 * w)
    rows = full.transpose(0, 2, 3, 1).reshape(-1, c)
    kernel_gradient = (rows.T @ patches.reshape(len(rows), -1)).reshape(kernel.shape)
    turned = kernel[:, :, ::-1, ::-1].transpose(1, 0, 2, 3).reshape(kernel.shape[1], -1)
    return kernel_gradient, rows.sum(axis=0), (_patches(full) @ turned.T).transpose(0, 3, 1, 2)


def model_text() -> str:
    """The SkriptND text of the network."""
    lines = (f"        {name}: real{list(shape)};" for name, shape in SHAPES.items())
    return MODEL.replace("VARIABLES", "\n".join(lines))


def _dense(p: Parameters, flat: Floats) -> tuple[Floats, Floats]:
    """The hidden layer and the logits."""
    hidden = np.maximum(flat @ p["weight3"].T + p["bias3"], 0)
    return hidden, hidden @ p["weight4"].T + p["bias4"]


def forward(p: Parameters, x: Floats) -> Floats:
    """The logits of the network, ``(count, 10)``."""
    _, pool1, _ = _conv_relu_pool(x, p["kernel1"], p["bias1"])
    _, pool2, _ = _conv_relu_pool(pool1, p["kernel2"], p["bias2"])
    return _dense(p, pool2.reshape(len(x), -1))[1]


def gradients(p: Parameters, x: Floats, labels: NDArray[np.int64]) -> Parameters:
    """Gradients of the mean cross entropy."""
    patches1, pool1, share1 = _conv_relu_pool(x, p["kernel1"], p["bias1"])
    patches2, pool2, share2 = _conv_relu_pool(pool1, p["kernel2"], p["bias2"])
    flat = pool2.reshape(len(x), -1)
    hidden, logits = _dense(p, flat)
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    d_logits = exponentials / exponentials.sum(axis=1, keepdims=True)
    d_logits[np.arange(len(x)), labels] -= 1
    d_logits /= len(x)
    d_hidden = (d_logits @ p["weight4"]) * (hidden > 0)
    d_pool2 = (d_hidden @ p["weight3"]).reshape(pool2.shape)
    kernel2, bias2, d_pool1 = _conv_gradients(patches2, share2, d_pool2, p["kernel2"])
    kernel1, bias1, _ = _conv_gradients(patches1, share1, d_pool1, p["kernel1"])
    dense3 = d_hidden.T @ flat, d_hidden.sum(axis=0)
    dense4 = d_logits.T @ hidden, d_logits.sum(axis=0)
    return dict(zip(SHAPES, (kernel1, bias1, kernel2, bias2, *dense3, *dense4), strict=True))


def train(images: Floats, labels: NDArray[np.int64], epochs: int = EPOCHS) -> Parameters:
    """Momentum with a falling rate, on images shifted by up to one pixel."""
    generator = np.random.default_rng(SEED)
    parameters = initial_parameters(generator)
    velocity = {name: np.zeros_like(value) for name, value in parameters.items()}
    for epoch in range(epochs):
        rate = np.float32(0.05 * (1 - epoch / epochs))
        for batch in np.split(generator.permutation(len(images)), range(BATCH, len(images), BATCH)):
            padded = np.pad(images[batch], ((0, 0), (0, 0), (1, 1), (1, 1)))
            down, right = generator.integers(0, 3, 2)
            x = padded[:, :, down : down + 8, right : right + 8]
            for name, gradient in gradients(parameters, x, labels[batch]).items():
                velocity[name] = np.float32(0.9) * velocity[name] - rate * gradient
                parameters[name] = parameters[name] + velocity[name]
    return parameters


def example_images(digits: Digits, predicted: NDArray[np.int64]) -> dict[str, bytes]:
    """Of each class the first held-out image that is recognised, as a PNG file."""
    from PIL import Image

    files = {}
    for digit in range(CLASSES):
        index = np.flatnonzero((digits.held_out_labels == digit) & (predicted == digit))[0]
        stream = io.BytesIO()
        Image.fromarray(digits.held_out_images[index]).save(stream, "PNG")
        files[f"digit-{digit}.png"] = stream.getvalue()
    return files


def main() -> None:
    """Train, report the accuracy, write the model folder."""
    from threadpoolctl import threadpool_limits

    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--output", type=Path, default=FOLDER, help="the folder to write")
    arguments.add_argument("--epochs", type=int, default=EPOCHS)
    options = arguments.parse_args()
    digits = load_digits()
    # On one thread: sums in another order would round differently.
    with threadpool_limits(1):
        parameters = train(network_input(digits.train_images), digits.train_labels, options.epochs)
    predicted = forward(parameters, network_input(digits.held_out_images)).argmax(axis=1)
    accuracy = np.mean(predicted == digits.held_out_labels)
    print(f"held-out accuracy {accuracy:.2%} of {len(predicted)} images")
    metadata = Metadata(
        labels=tuple(map(str, range(CLASSES))),
        inputs={"image": ImageInput(layout="NCHW", scale=(SCALE,))},
    )
    variables = {
        variable_file_name(f"main.Digits.{name}"): write_tensor(value)
        for name, value in parameters.items()
    }
    files = {
        "main.sknd": model_text().encode(),
        "model.json": write_metadata(metadata),
        **variables,
    }
    images = example_images(digits, predicted)
    write_container(options.output, {**files, **images}, overwrite=True)
    print(f"wrote {options.output}")


if __name__ == "__main__":
    main()
