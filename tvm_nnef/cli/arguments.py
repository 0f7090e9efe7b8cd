"""The commands and options of the command line, and options as arguments of the Python calls."""

from __future__ import annotations

import argparse
from typing import Any

from tvm_nnef.cli import conversion, words
from tvm_nnef.cli.comparing import ROUTES, bench_options, compare_options
from tvm_nnef.cli.examples import epilog_of
from tvm_nnef.cli.images import image_options, labels_option
from tvm_nnef.cli.parser import Command, Parser, Version, add_printing
from tvm_nnef.cli.text_arguments import dialect_option, format_options, ops_options
from tvm_nnef.formats.registry import FORMATS
from tvm_nnef.quantization.kinds import ACTIVATIONS, BITS, BLOCKS, METHODS


def make_parser() -> argparse.ArgumentParser:
    """The parser of ``tvm-nnef``; ``command`` is the name of the module that runs it."""
    parser = Parser(
        prog="tvm-nnef",
        description="NNEF 2 (SkriptND) models on Apache TVM.",
        epilog="'tvm-nnef COMMAND --help' describes a command, with examples.",
    )
    parser.add_argument("--version", action=Version, nargs=0, help="show the version and exit")
    parser.commands = [each.name for each in _COMMANDS]
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for each in _COMMANDS:
        command = commands.add_parser(
            each.name,
            help=each.help,
            description=f"{each.help[0].upper()}{each.help[1:]}.",
            epilog=epilog_of(each.name),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        for add in (*each.options, add_printing):
            add(command)
    return parser


def _model(parser: argparse._ActionsContainer, further: str = "") -> None:
    kinds = ", ".join(each.title for each in FORMATS if each.on_command_line)
    text = (
        f"a model folder, a .sknd file, a .tar or .tgz archive, a model of another format ({kinds})"
    )
    parser.add_argument("model", help=text + further)


def _model_or_library(parser: argparse._ActionsContainer) -> None:
    _model(parser, ", or a built library")


def _reading(parser: argparse._ActionsContainer) -> None:
    dialect_option(parser)
    _search_path(parser)


def _search_path(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--search-path",
        action="append",
        default=[],
        metavar="DIR",
        help="a folder in which modules are found, besides that of the model; may be repeated",
    )


def _composing(parser: argparse._ActionsContainer) -> None:
    group = parser.add_argument_group("composing")
    group.add_argument("--graph", help="the graph of the model (default: the first)")
    group.add_argument(
        "--attr",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        type=words.attribute,
        help="a graph attribute: batch=8, mode=fast, sizes=1,2,3",
    )
    group.add_argument(
        "--type",
        action="append",
        default=[],
        metavar="T=int",
        type=words.pair,
        help="a generic type",
    )


def _shapes(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="INPUT=1,3,224,224",
        type=words.named_shape,
        help="the shape of an input; of a converted model: a name instead of a number, as "
        "in INPUT=N,3,224,224, keeps the dimension dynamic",
    )


def _converting(parser: argparse._ActionsContainer) -> None:
    _shapes(parser)
    conversion.add_options(parser)


def _inputs(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--input",
        "-i",
        action="append",
        default=[],
        metavar="[NAME=]VALUE",
        help="a .npy file or an image for an input, by name or in order; repeat it for each input; "
        "or one .npz file with an array for each name; NAME=16000, NAME=1,2,3, NAME=zeros, "
        "NAME=ones or NAME=random without a file (default: random numbers)",
    )
    parser.add_argument("--seed", type=words.seed, default=0, help="seed of random inputs")
    image_options(parser)


def _threads(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--threads",
        type=words.count,
        metavar="N",
        help="number of threads (default: all cores)",
    )


def _target(parser: argparse._ActionsContainer) -> None:
    text = "a target: x86-64-v3, aarch64:cortex-a76, cuda:sm_80,sm_90a, … (default: native)"
    parser.add_argument("--target", default="native", help=text)


def _cache(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--no-cache", action="store_true", help="compile the model, even if it is in the cache"
    )


def _check(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--output-format",
        choices=("text", "json", "github"),
        default="text",
        help="text on standard error, or on standard output JSON or annotations of GitHub Actions "
        "(default: text)",
    )


def _run(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--output",
        "-o",
        action="append",
        default=[],
        metavar="[NAME=]FILE",
        help="a .npy file to write for an output, by name or in order; repeat it for each output; "
        "or one .npz file for all, by name",
    )
    parser.add_argument(
        "--route",
        choices=ROUTES,
        default="mapped",
        help="how operators are executed (default: mapped)",
    )
    text = "classes to print (default: 5, if the model has labels)"
    parser.add_argument("--top", type=words.count, metavar="N", help=text)
    parser.add_argument(
        "--checked",
        action="store_true",
        help="compile bounds checks: an index outside of a tensor is an error",
    )
    parser.add_argument(
        "--profile", action="store_true", help="print how long each operation of the model takes"
    )
    parser.add_argument(
        "--profile-json", metavar="FILE", help="write the times of the operations as JSON"
    )


def _show(parser: argparse._ActionsContainer) -> None:
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--full", action="store_true", help="print full names and every attribute, cut nothing"
    )
    form.add_argument(
        "--bodies", action="store_true", help="print what operators consist of, as text"
    )
    form.add_argument("--json", action="store_true", help="print it as JSON")
    form.add_argument("--dot", metavar="FILE", help="write it as a Graphviz file")
    form.add_argument("--svg", metavar="FILE", help="draw it into an SVG file")
    form.add_argument(
        "--html", metavar="FILE", help="write a page to explore it in a browser: one file"
    )
    parser.add_argument(
        "--profile",
        metavar="FILE",
        help="show times as colours in the page: a file that 'run --profile-json' wrote",
    )
    parser.add_argument(
        "--diff",
        metavar="OLD",
        help="show how the model differs from another one: operations added, gone, and changed in "
        "attributes, shapes or weights",
    )


def _build(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--output", "-o", required=True, metavar="FILE", help="the library: model.so"
    )
    parser.add_argument("--dump-dir", metavar="DIR", help="write the module after each pass")
    parser.add_argument("--timings", action="store_true", help="print the time of each pass")
    parser.add_argument("--database", metavar="DIR", help="use the schedules that tune found")
    parser.add_argument(
        "--cuda-graphs",
        action="store_true",
        help="launch kernels of static shapes as CUDA graphs",
    )
    parser.add_argument(
        "--int8-activations",
        action="store_true",
        help="round what many rows multiply with weights of few bits to int8",
    )
    parser.add_argument(
        "--verbose",
        action="store_true",
        help="print each kernel's strategy, work and measured speed",
    )
    parser.add_argument("--json", action="store_true", help="the same as JSON")


def _tune(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--trials",
        type=words.count,
        required=True,
        metavar="N",
        help="schedules to measure; those that the database has already count",
    )
    parser.add_argument(
        "--database", required=True, metavar="DIR", help="the folder to keep what is found in"
    )
    parser.add_argument("--json", action="store_true", help="print what was found as JSON")


def _overwrite(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--overwrite",
        action="store_true",
        help="replace the model in an existing folder, although it was changed or made by hand",
    )


def _extract(parser: argparse._ActionsContainer) -> None:
    for flag, name, what in (("--from", "begin", "input"), ("--to", "end", "output")):
        parser.add_argument(
            flag,
            dest=name,
            action="append",
            default=[],
            metavar="TENSOR",
            help=f"a tensor that becomes an {what}, by its name in the model or in its source; "
            f"may be repeated (default: the {what}s of the model)",
        )
    parser.add_argument(
        "--output",
        "-o",
        required=True,
        metavar="PART",
        help="the model to write: a folder, or an archive (.tar, .tgz)",
    )
    _overwrite(parser)


def _convert(parser: argparse._ActionsContainer) -> None:
    suffixes = " or ".join(each.exports for each in FORMATS if each.exports)
    kinds = ", ".join(each.title for each in FORMATS if each.on_command_line)
    parser.add_argument("source", help=f"a model to convert: {kinds} or SkriptND")
    parser.add_argument(
        "destination", help=f"a folder, or an archive (.tar, .tgz); or a {suffixes} file to write"
    )
    _overwrite(parser)
    parser.add_argument(
        "--flat", action="store_true", help="leave blocks that repeat as they are in the source"
    )


def _quantize(parser: argparse._ActionsContainer) -> None:
    parser.add_argument("destination", help="a folder, or an archive (.tar, .tgz)")
    parser.add_argument(
        "--data",
        metavar="DIR",
        help="a folder with inputs for a calibration: a file for each, .npy, .npz or an image; "
        "weights and activations become codes of 8 bits, and products are computed in integers",
    )
    parser.add_argument(
        "--weights",
        choices=[*BITS],
        help="the kind of codes that weights become; without --data, weights alone are quantized",
    )
    parser.add_argument(
        "--activations",
        choices=ACTIVATIONS,
        help="with --data, codes of activations with a zero point, or around 0 (default: uint8)",
    )
    parser.add_argument(
        "--block",
        type=int,
        choices=BLOCKS,
        help="without --data, the codes that share a scale (default: 32)",
    )
    parser.add_argument(
        "--method",
        choices=METHODS,
        default="minmax",
        help="choose ranges by the largest elements, or for the least squared error; those of "
        "activations also without a few elements, or by their distribution (default: minmax)",
    )
    parser.add_argument(
        "--percentile",
        type=float,
        default=99.99,
        metavar="P",
        help="the percentage of elements in a range, for that method (default: 99.99)",
    )
    parser.add_argument(
        "--keep-float",
        action="append",
        default=[],
        metavar="N|NAME",
        help="leave so many operators, or weights, of the largest errors as they are, or the "
        "named ones; names may be repeated, and be those of the source, or of a layer",
    )
    _overwrite(parser)
    parser.add_argument("--json", action="store_true", help="print the errors as JSON")
    image_options(parser)


def _env(parser: argparse._ActionsContainer) -> None:
    parser.add_argument("--json", action="store_true", help="print it as JSON")


_COMMANDS = (
    Command(
        "check",
        "report all errors of a model",
        (_model, _reading, _composing, _converting, _check),
    ),
    Command(
        "run",
        "compile a model for this CPU, or load a built library, and run it",
        (
            _model_or_library,
            _reading,
            _composing,
            _converting,
            _inputs,
            _run,
            labels_option,
            _target,
            _threads,
            _cache,
        ),
    ),
    Command(
        "compare",
        "run a model on two routes, and find the first operator that differs",
        (_model, _reading, _composing, _converting, _inputs, compare_options),
    ),
    Command(
        "show",
        "print or draw the composed graph",
        (_model, _reading, _composing, _converting, _show),
    ),
    Command(
        "build",
        "compile a model into a library",
        (_model, _reading, _composing, _converting, _target, _build, _threads, _cache),
    ),
    Command(
        "tune",
        "search for faster schedules by measuring, into a folder that build reads",
        (_model, _reading, _composing, _converting, _target, _tune, _threads),
    ),
    Command(
        "bench",
        "measure the speed of a model or a built library",
        (_model_or_library, _reading, _composing, _converting, _inputs, bench_options, _cache),
    ),
    Command(
        "convert",
        "convert a model to SkriptND, or to ONNX or NNEF 1",
        (_convert, _reading, _composing, _converting),
    ),
    Command(
        "quantize",
        "write a model computed in integers, or with weights of few bits",
        (_model, _quantize, _reading, _composing, _converting),
    ),
    Command(
        "extract",
        "write a part of a model: what is between some of its tensors",
        (_model, _extract, _reading, _composing, _converting),
    ),
    Command(
        "ops",
        "list the standard operators, or describe one",
        (ops_options, _reading),
    ),
    Command(
        "format",
        "format SkriptND texts, and keep their comments",
        (format_options, dialect_option),
    ),
    Command(
        "lsp", "run a language server for editors on standard input and output", (_search_path,)
    ),
    Command("env", "print versions, the CPU and the targets, for bug reports", (_env,)),
)


def add_model_options(parser: argparse._ActionsContainer) -> None:
    """Add the model and the options by which it is read and composed, those of every command."""
    for add in (_model, _reading, _composing, _converting):
        add(parser)


def compose_options(options: argparse.Namespace) -> dict[str, Any]:
    """The keyword arguments of ``compose`` that the command line gives."""
    return {
        "graph": options.graph,
        "attributes": dict(options.attr),
        "types": dict(options.type),
        "input_shapes": dict(options.shape),
    }


def convert_options(options: argparse.Namespace) -> dict[str, Any]:
    """The keyword arguments of ``convert`` that the command line gives."""
    shapes = {"input_shapes": dict(options.shape)} if options.shape else {}
    return conversion.given_options(options) | shapes


def load_options(options: argparse.Namespace) -> dict[str, Any]:
    """The keyword arguments of ``load_model`` that the command line gives."""
    reading = {"dialect": options.dialect, "search_path": options.search_path}
    format = getattr(options, "format", None)
    return {**reading, "format": format, **conversion.given_options(options)}
