"""The options of the commands that run a model on several routes, or beside another library."""

from __future__ import annotations

import argparse

from tvm_nnef.cli import words
from tvm_nnef.formats.registry import FORMATS

ROUTES = ("mapped", "formula", "reference")
"""The routes on which any model runs."""


def compare_options(parser: argparse._ActionsContainer) -> None:
    """The options of ``compare``: the routes, and how far apart they may be."""
    recorded = [each.route for each in FORMATS if each.route]
    parser.add_argument(
        "--against",
        metavar="SOURCE",
        help="the model of another format that the model was converted from, run by its library",
    )
    parser.add_argument(
        "--routes",
        nargs=2,
        choices=(*ROUTES, *recorded),
        metavar="ROUTE",
        help=f"{', '.join((*ROUTES, *recorded))} (default: mapped reference; with --against, and "
        f"for a model of another format that its library runs: that route, as {recorded[0]}, and "
        "mapped)",
    )
    parser.add_argument(
        "--rtol",
        type=words.tolerance,
        metavar="X",
        help="relative tolerance (default: by dtype)",
    )
    parser.add_argument(
        "--atol",
        type=words.tolerance,
        metavar="X",
        help="absolute tolerance (default: the relative one of a typical element)",
    )
    parser.add_argument(
        "--chained",
        action="store_true",
        help="give each route its own operands, so that rounding adds up",
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def bench_options(parser: argparse._ActionsContainer) -> None:
    """The options of ``bench``: what is measured, how long, and beside what."""
    parser.add_argument(
        "--against",
        metavar="SOURCE",
        help="run this model of another format in its library, in turns with ours (default: a "
        "MODEL of such a format)",
    )
    parser.add_argument(
        "--threads",
        type=words.count,
        nargs="+",
        metavar="N",
        help="numbers of threads (default: 1, and all cores)",
    )
    parser.add_argument(
        "--seconds",
        type=words.seconds,
        default=3.0,
        metavar="S",
        help="how long each number of threads is measured (default: 3)",
    )
    parser.add_argument("--database", metavar="DIR", help="use the schedules that tune found")
    parser.add_argument(
        "--no-check",
        action="store_true",
        help="do not compare the outputs with those of the other library or of the reference "
        "evaluator, which takes long for a large model",
    )
    parser.add_argument("--json", action="store_true", help="print the times as JSON")
