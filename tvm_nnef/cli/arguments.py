"""The grammar of the command line, and its words turned into what the Python calls take."""

from __future__ import annotations

import argparse
from importlib import metadata
from typing import Any

_TRUTH = {"true": True, "false": False}
_ROUTES = ("mapped", "formula", "reference")


def make_parser() -> argparse.ArgumentParser:
    """The parser of ``tvm-nnef``; ``command`` is the name of the module that runs it."""
    parser = argparse.ArgumentParser(
        prog="tvm-nnef", description="NNEF 2 (SkriptND) models on Apache TVM."
    )
    version = f"tvm-nnef {metadata.version('tvm-nnef')}"
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    model, composing, inputs = _model_options(), _composing_options(), _input_options()

    check = commands.add_parser(
        "check", parents=[model, composing], help="tell everything that is wrong with a model"
    )
    check.add_argument("--quiet", action="store_true", help="say nothing where all is well")

    run = commands.add_parser(
        "run", parents=[model, composing, inputs], help="compile a model for this CPU and run it"
    )
    run.add_argument(
        "--output",
        "-o",
        nargs="+",
        action="extend",
        default=[],
        metavar="FILE",
        help="a .npy file to write for each output, in order",
    )
    run.add_argument("--target", default="native", help="a TVM target (default: native)")
    run.add_argument(
        "--route",
        choices=_ROUTES,
        default="mapped",
        help="how operators are executed (default: mapped)",
    )
    run.add_argument("--top", type=int, default=5, metavar="N", help="classes to print")

    compare = commands.add_parser(
        "compare",
        parents=[model, composing, inputs],
        help="run a model on two routes, and find the first operator that differs",
    )
    compare.add_argument(
        "--routes",
        nargs=2,
        choices=_ROUTES,
        default=["mapped", "reference"],
        metavar="ROUTE",
        help="mapped, formula or reference (default: mapped reference)",
    )
    compare.add_argument(
        "--rtol", type=float, metavar="X", help="relative tolerance (default: by machine type)"
    )
    compare.add_argument(
        "--atol",
        type=float,
        metavar="X",
        help="absolute tolerance (default: the relative one of a typical element)",
    )
    compare.add_argument(
        "--chained",
        action="store_true",
        help="give each route its own operands, so that rounding adds up",
    )
    compare.add_argument("--json", action="store_true", help="print the report as JSON")

    show = commands.add_parser("show", parents=[model, composing], help="print the composed graph")
    show.add_argument("--svg", metavar="FILE", help="draw it into an SVG file")
    show.add_argument("--json", action="store_true", help="print it as JSON")
    show.add_argument("--bodies", action="store_true", help="print what operators consist of, too")

    build = commands.add_parser(
        "build", parents=[model, composing], help="compile a model into a library"
    )
    build.add_argument("--target", default="native", help="a TVM target (default: native)")
    build.add_argument(
        "--output", "-o", required=True, metavar="FILE", help="the library: model.so"
    )
    build.add_argument("--dump-dir", metavar="DIR", help="write what stands after each stage")

    convert = commands.add_parser(
        "convert", help="write a model of another format (ONNX) as a SkriptND model"
    )
    convert.add_argument("source", help="the model: a .onnx file")
    convert.add_argument("destination", help="a folder, or an archive (.tar, .tgz)")
    convert.add_argument("--format", help="the format of the source (default: told from it)")
    _add_shape_option(convert)

    ops = commands.add_parser("ops", help="list the standard operators, or describe one")
    ops.add_argument("name", nargs="?", help="an operator (nn.conv) or a module (nn)")
    ops.add_argument("--model", help="the operators of a model's own modules instead")
    _add_reading_options(ops)
    return parser


def _model_options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("model", help="a model folder, a .sknd file, or a .tar or .tgz archive")
    _add_reading_options(parser)
    return parser


def _add_reading_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dialect", choices=("auto", "draft", "tools"), default="auto")
    parser.add_argument(
        "--search-path", action="append", default=[], metavar="DIR", help="where modules are found"
    )


def _input_options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument(
        "--input",
        "-i",
        nargs="+",
        action="extend",
        default=[],
        metavar="FILE",
        help="a .npy file or an image for each input, in order (default: random numbers)",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of random inputs")
    return parser


def _composing_options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(add_help=False)
    group = parser.add_argument_group("composing")
    group.add_argument("--graph", help="the graph of the model (default: the first)")
    group.add_argument(
        "--attr",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        type=_attribute,
        help="a graph attribute: batch=8, mode=fast, sizes=1,2,3",
    )
    _add_shape_option(group)
    group.add_argument(
        "--type", action="append", default=[], metavar="T=int", type=_pair, help="a generic type"
    )
    return parser


def _add_shape_option(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="INPUT=1,3,224,224",
        type=_shape,
        help="the shape of an input",
    )


def compose_options(options: argparse.Namespace) -> dict[str, Any]:
    """The keyword arguments of ``compose`` that the command line gives."""
    return {
        "graph": options.graph,
        "attributes": dict(options.attr),
        "types": dict(options.type),
        "input_shapes": dict(options.shape),
    }


def load_options(options: argparse.Namespace) -> dict[str, Any]:
    """The keyword arguments of ``load_model`` that the command line gives."""
    return {"dialect": options.dialect, "search_path": options.search_path}


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, found '{text}'")
    return name, value


def _attribute(text: str) -> tuple[str, Any]:
    name, value = _pair(text)
    if value.startswith("[") and value.endswith("]"):
        inner = value[1:-1]
        return name, tuple(_atom(item) for item in inner.split(",")) if inner.strip() else ()
    if "," in value:
        return name, tuple(_atom(item) for item in value.split(","))
    return name, _atom(value)


def _atom(text: str) -> bool | int | float | str:
    word = text.strip()
    if word in _TRUTH:
        return _TRUTH[word]
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return word.strip("'\"")


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    name, value = _pair(text)
    try:
        extents = tuple(int(item) for item in value.strip("[]()").split(",") if item.strip())
    except ValueError:
        message = f"expected INPUT=1,3,224,224, found '{text}'"
        raise argparse.ArgumentTypeError(message) from None
    return name, extents


def plural(number: int, word: str) -> str:
    """``1 error``, ``2 errors``."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
