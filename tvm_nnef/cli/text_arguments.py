"""The options of commands that take names or texts, and no model."""

from __future__ import annotations

import argparse


def dialect_option(parser: argparse._ActionsContainer) -> None:
    """The dialect of a text."""
    parser.add_argument(
        "--dialect",
        choices=("auto", "draft", "tools"),
        default="auto",
        help="of SkriptND texts: that of the specification's draft, or that of Khronos's tools "
        "(default: detected from the text)",
    )


def format_options(parser: argparse._ActionsContainer) -> None:
    """The options of ``format``."""
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="a .sknd file, a folder with such files, or '-': standard input to standard output",
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; status 1 if a file would change"
    )
    parser.add_argument(
        "--diff", action="store_true", help="as --check, and print what would change"
    )


def ops_options(parser: argparse._ActionsContainer) -> None:
    """The options of ``ops``."""
    parser.add_argument("name", nargs="?", help="an operator (nn.conv) or a module (nn)")
    parser.add_argument("--model", help="the operators of a model's own modules instead")
