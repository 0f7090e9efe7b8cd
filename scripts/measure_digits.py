"""Measure the digits model on the held-out images: compiled, with the evaluator, and in integers.

Prints the accuracy of each. Exit status 1 where one of them is below 97 %, where compiled code and
evaluator name different digits for an image, or where the model in integers, calibrated on images
of the training, loses more than 0.3 points. The images are those that ``train_digits.py`` kept out
of training.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from train_digits import FOLDER, load_digits, network_input

import tvm_nnef

REQUIRED = 0.97

LOSS = 0.003
"""Upper limit of the loss of accuracy of the model in integers."""

CALIBRATED = 64
"""The images that it is calibrated on."""


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
    data = np.split(network_input(digits.train_images[:CALIBRATED]), CALIBRATED)
    small = tvm_nnef.quantize(model, data, progress=False)

    def compiled(each: tvm_nnef.Model) -> np.ndarray:
        program = tvm_nnef.build(each, options.target, attributes=attributes, progress=False)
        return np.asarray(program(images)[0]).argmax(axis=1)

    predictions = {
        "compiled": compiled(model),
        "evaluator": tvm_nnef.evaluate(model, images, attributes=attributes)[0].argmax(axis=1),
        "integers": compiled(small),
    }
    accuracies = {name: float(np.mean(found == labels)) for name, found in predictions.items()}
    for name, accuracy in accuracies.items():
        print(f"{name:10}{accuracy:8.2%} of {len(labels)} held-out images")
    problems = []
    different = np.flatnonzero(predictions["compiled"] != predictions["evaluator"])
    if different.size:
        problems.append(f"compiled code and evaluator differ on images {different.tolist()}")
    if min(accuracies.values()) < REQUIRED:
        problems.append(f"below the required {REQUIRED:.0%}")
    if accuracies["integers"] < accuracies["compiled"] - LOSS:
        problems.append(f"the model in integers loses more than {LOSS:.1%}")
    print(*problems, sep="\n", end="\n" if problems else "", file=sys.stderr)
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
