"""Options that only the conversion of a model of another format takes."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm_nnef.cli import words
from tvm_nnef.formats.registry import FORMATS


@dataclass(frozen=True, slots=True)
class Option:
    """An option: the argument of ``convert`` that it gives, and what argparse needs.

    ``pair`` reads a name and a value; such an option may be repeated and gives a dictionary.
    One that is ``several`` may be repeated and gives a list.
    """

    flag: str
    argument: str
    metavar: str
    help: str
    pair: Callable[[str], tuple[str, Any]] | None = None
    several: bool = False


OPTIONS = (
    Option(
        "--bound",
        "bounds",
        "NAME=16",
        "of a converted model: keep a dimension dynamic up to this size; without a name, "
        "all that are dynamic; for each dimension of a tensor: NAME=_,16",
        words.bound,
    ),
    Option(
        "--dtype",
        "dtypes",
        "NAME=float16",
        "the dtype of real, int or bool, of an input, or of a tensor by its full name; of a "
        "converted model: of an input whose dtype the model does not fix",
        words.pair,
    ),
    Option(
        "--replaceable",
        "replaceable",
        "NAME",
        "of an ONNX model: make an initializer that is an input, too, an input with a default",
        several=True,
    ),
    Option(
        "--state",
        "state",
        "PAST=PRESENT",
        "of an ONNX model: make an input and an output, or all whose names begin so, a state that "
        "each call updates: past_key_values=present",
        words.pair,
    ),
    Option(
        "--vendor",
        "vendor",
        "NAME",
        "of an NNEF 1 model: the vendor whose extensions it may use: tract",
    ),
    Option(
        "--argument",
        "arguments",
        "NAME=2",
        "of a Tile function: the value of a parameter that is not a tensor; NAME=2,1 for a vector, "
        "NAME=[2] for one of a single item",
        words.attribute,
    ),
    Option(
        "--function",
        "function",
        "NAME",
        "of a text with several Tile functions: the one to convert (default: the one that no other "
        "calls)",
    ),
)
"""The options, which are those of conversions that a text can give."""


def add_options(parser: argparse._ActionsContainer) -> None:
    """Add the options of conversions, and ``--format``."""
    for each in OPTIONS:
        if each.pair is None and not each.several:
            parser.add_argument(each.flag, metavar=each.metavar, help=each.help)
        else:
            parser.add_argument(
                each.flag,
                action="append",
                default=[],
                metavar=each.metavar,
                type=each.pair or str,
                help=each.help,
            )
    names = ", ".join(each.name for each in FORMATS if not each.in_memory)
    parser.add_argument(
        "--format",
        metavar="NAME",
        help=f"the format of the model: {names} (default: detected from the content)",
    )


def given_options(options: argparse.Namespace) -> dict[str, Any]:
    """The arguments of ``convert`` for the options that are given."""
    found = {each: getattr(options, each.flag.removeprefix("--"), None) for each in OPTIONS}
    return {
        each.argument: value if each.pair is None else dict(value)
        for each, value in found.items()
        if value
    }
