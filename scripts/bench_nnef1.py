"""Measures how long AlexNet as NNEF 1 takes to convert, apart from reading its files.

Writes the network with random weights, 60 million of them by default, to a temporary folder; prints
the processor seconds that reading the files alone takes, and those of the conversion.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tvm_nnef.converters.nnef1 import convert
from tvm_nnef.storage.container import Container, open_files
from tvm_nnef.storage.tensor_file import read_tensor, write_tensor

LAYERS = (
    # channels, size, stride, padding, and whether pooling follows
    (64, 11, 4, 0, True), (192, 5, 1, 2, True), (384, 3, 1, 1, False), (384, 3, 1, 1, False),
    (256, 3, 1, 1, True),
)  # fmt: skip


def write_alexnet(folder: Path, width: int) -> None:
    """Write the network; ``width`` is the number of channels between the last layers."""
    random = np.random.default_rng(0)
    lines = ["x0 = external(shape = [1, 3, 224, 224]);"]

    def variable(name: str, shape: list[int]) -> None:
        array = random.standard_normal(shape, np.float32)
        (folder / f"{name}.dat").write_bytes(write_tensor(array))
        lines.append(f"{name} = variable(shape = {shape}, label = '{name}');")

    def layer(number: int, inputs: int, channels: int, size: int, geometry: str) -> None:
        variable(f"w{number}", [channels, inputs, size, size])
        variable(f"b{number}", [1, channels])
        lines.append(f"c{number} = conv(x{number - 1}, w{number}, b{number}, {geometry});")
        lines.append(f"x{number} = relu(c{number});")

    channels = 3
    for number, (wanted, size, stride, padding, pools) in enumerate(LAYERS, 1):
        pads = f"padding = [({padding}, {padding}), ({padding}, {padding})]"
        layer(number, channels, wanted, size, f"{pads}, stride = [{stride}, {stride}]")
        if pools:
            lines[-1] = f"r{number} = relu(c{number});"
            window = "size = [1, 1, 3, 3], stride = [1, 1, 2, 2], border = 'ignore'"
            lines.append(f"x{number} = max_pool(r{number}, {window}, padding = {[(0, 0)] * 4});")
        channels = wanted
    for number, (inputs, outputs, size) in enumerate(
        ((channels, width, 5), (width, width, 1), (width, 1000, 1)), len(LAYERS) + 1
    ):
        layer(number, inputs, outputs, size, "padding = [(0, 0), (0, 0)]")
    body = "\n".join(lines)
    text = f"version 1.0;\ngraph alexnet(x0) -> (x8) {{\n{body}\n}}\n"
    (folder / "graph.nnef").write_text(text, "utf-8")


def seconds(function: Callable[[], object]) -> float:
    """The processor seconds of the fastest of three calls."""
    found = []
    for _ in range(3):
        start = time.process_time()
        function()
        found.append(time.process_time() - start)
    return min(found)


def read_all(files: Container) -> list[object]:
    """The tensors of a model."""
    return [read_tensor(files.read(each), each) for each in files.names() if each.endswith(".dat")]


def main() -> None:
    """Print the seconds of reading and of converting."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=4096, help="of the last layers")
    width = parser.parse_args().width
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_alexnet(folder, width)
        reading = seconds(lambda: read_all(open_files(folder)))
        converting = seconds(lambda: convert(folder))
    print(f"reading {reading:.2f} s, converting {converting:.2f} s, "
          f"beyond reading {converting - reading:.2f} s")  # fmt: skip


if __name__ == "__main__":
    main()
