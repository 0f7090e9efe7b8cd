"""The options that say how images become inputs, and what classes are called."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from dataclasses import replace

from tvm_nnef.cli import words
from tvm_nnef.diagnostics import error
from tvm_nnef.storage.container import MAX_TEXT_SIZE
from tvm_nnef.storage.metadata import LAYOUTS, ImageInput
from tvm_nnef.storage.regular import open_regular


def image_options(parser: argparse._ActionsContainer) -> None:
    """Add the options of images, which replace those of ``model.json``."""
    group = parser.add_argument_group(
        "images", "an image becomes (pixel - mean) * scale, of pixels from 0 to 255"
    )
    group.add_argument(
        "--layout",
        choices=LAYOUTS,
        help="the order of the dimensions of an input that is an image (default: model.json)",
    )
    group.add_argument(
        "--image-mean",
        metavar="X[,X,X]",
        type=words.channels,
        help="the mean of pixels: a number for all channels, or one for each (default: model.json)",
    )
    group.add_argument(
        "--image-scale",
        metavar="X[,X,X]",
        type=words.channels,
        help="the factor of pixels, likewise (default: model.json)",
    )


def labels_option(parser: argparse._ActionsContainer) -> None:
    """Add the option of names of classes."""
    parser.add_argument(
        "--labels",
        metavar="FILE",
        help="a text with the name of a class in each line (default: model.json)",
    )


def given_images(
    images: Mapping[str, ImageInput], names: Iterable[str], options: argparse.Namespace
) -> Mapping[str, ImageInput]:
    """Return the conversion of images to inputs of given names: by the options, else by the model.

    Raises NnefError for options without an input that is given.
    """
    asked = {
        "layout": options.layout,
        "mean": options.image_mean,
        "scale": options.image_scale,
    }
    given = {name: value for name, value in asked.items() if value is not None}
    if not given:
        return images
    if not options.input:
        hint = "give an image, as in '-i photo.jpg'"
        raise error("no image is given, but options say how one becomes an input", hint=hint)
    known = dict(images)
    if options.layout is not None:
        known = {name: images.get(name, ImageInput("")) for name in names}
    if not known:
        hint = "give the order of its dimensions as well, as in '--layout NCHW'"
        raise error("the model does not declare an input to be an image", hint=hint)
    return {name: replace(image, **given) for name, image in known.items()}


def read_labels(file: str) -> tuple[str, ...]:
    """The lines of a text. Raises NnefError if it cannot be read or is empty."""
    hint = "give a text in UTF-8 with the name of a class in each line"
    try:
        with open_regular(file) as stream:
            data = stream.read(MAX_TEXT_SIZE + 1)
        if len(data) > MAX_TEXT_SIZE:
            raise ValueError(f"they have more than {MAX_TEXT_SIZE} bytes")
        lines = data.decode("utf-8-sig").rstrip().splitlines()
    except (OSError, ValueError) as cause:
        reason = getattr(cause, "strerror", None) or cause
        raise error(f"the labels cannot be read: {reason}", hint=hint, file=file) from None
    if not lines:
        raise error("there are no labels in this file", hint=hint, file=file)
    return tuple(lines)
