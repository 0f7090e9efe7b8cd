"""Measure the digits model on the held-out images: compiled, and with the NumPy evaluator.

Prints the accuracy of both. Exit status 1 where one of them is below 97 %, or where the two name
different digits for an image. The images are those that ``train_digits.py`` kept out of training.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from train_digits import FOLDER, load_digits, network_input

import tvm_nnef

REQUIRED = 0.97


def main() -> int:
    """Measure, print, and say by the exit status whether all is well."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("model", nargs="?", type=Path, default=FOLDER)
    arguments.add_argument("--target", default="native")
    options = arguments.parse_args()
    digits = load_digits()
    images, labels = network_input(digits.held_out_images), digits.held_out_labels
    model = tvm_nnef.load_model(options.model)
    attributes = {"batch": len(images)}
    compiled = tvm_nnef.build(model, options.target, attributes=attributes, progress=False)
    predictions = {
        "compiled": compiled(images)[0].argmax(axis=1),
        "evaluator": tvm_nnef.evaluate(model, images, attributes=attributes)[0].argmax(axis=1),
    }
    accuracies = {name: float(np.mean(found == labels)) for name, found in predictions.items()}
    for name, accuracy in accuracies.items():
        print(f"{name:10}{accuracy:8.2%} of {len(labels)} held-out images")
    different = np.flatnonzero(predictions["compiled"] != predictions["evaluator"])
    if different.size:
        print(f"the two differ on images {different.tolist()}", file=sys.stderr)
    if min(accuracies.values()) < REQUIRED:
        print(f"below the required {REQUIRED:.0%}", file=sys.stderr)
    return int(bool(different.size) or min(accuracies.values()) < REQUIRED)


if __name__ == "__main__":
    sys.exit(main())
