"""The parser of the command line, and the options that all commands have."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from tvm_nnef.diagnostics import did_you_mean

Adds = Callable[[argparse._ActionsContainer], None]
"""Puts options into a parser."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command: the module of this name runs it, and these put its options together."""

    name: str
    help: str
    options: Sequence[Adds]


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line and a hint, not a page of usage."""

    commands: Sequence[str] = ()
    """The names of the commands that it parses."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse arguments; an unknown option is an error of the command that has the others."""
        words = list(sys.argv[1:] if args is None else args)
        if self.commands and words and words[0].startswith("-"):
            options = self._option_string_actions
            if words[0] not in options:
                self._reject(words[0])
        found, rest = super().parse_known_args(args, namespace)
        if rest and not self.commands:
            self._reject(*rest)
        return found, rest

    def _reject(self, *words: str) -> NoReturn:
        """Print which words are not understood, with the nearest option, and exit."""
        near = did_you_mean(words[0].partition("=")[0], self._option_string_actions)
        self._fail(f"unrecognized arguments: {' '.join(words)}", near)

    def error(self, message: str) -> NoReturn:
        """Print the message and exit with status 2."""
        # Python 3.10 to 3.13 list all commands for an unknown one; a user needs the nearest.
        wrong = re.match(r"argument COMMAND: invalid choice: '(.*?)'", message)
        if wrong:
            message = f"unknown command '{wrong[1]}'"
        self._fail(message, did_you_mean(wrong[1], self.commands) if wrong else None)

    def _fail(self, message: str, hint: str | None) -> NoReturn:
        hint = hint or f"'{self.prog} --help' describes the usage"
        self.exit(2, f"{self.prog}: error: {message}\n  hint: {hint}\n")


class Version(argparse.Action):
    """The option ``--version``. Only it imports the module of the version, which is slow."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Print the version and exit."""
        from tvm_nnef.version import __version__

        print(f"tvm-nnef {__version__}")
        parser.exit()


def add_printing(parser: argparse._ActionsContainer) -> None:
    """Add the options of all commands about what is printed besides results."""
    group = parser.add_argument_group("printing")
    group.add_argument(
        "--quiet", "-q", action="store_true", help="print results and errors only, no progress"
    )
    group.add_argument(
        "-v",
        dest="log_level",
        action="count",
        default=0,
        help="print log messages; -vv prints more",
    )
