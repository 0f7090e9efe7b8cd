"""What ``--help`` shows, and the usage without any arguments."""

from __future__ import annotations

import pytest

from tvm_nnef.cli import main
from tvm_nnef.cli.arguments import make_parser
from tvm_nnef.cli.examples import EXAMPLES, epilog_of

EVERY = [(command, each) for command, examples in EXAMPLES.items() for each in examples]


def test_no_arguments_print_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("usage: tvm-nnef")
    assert "\n    check " in printed.err


@pytest.mark.parametrize(("command", "example"), EVERY)
def test_examples_are_valid_usage(command: str, example: str) -> None:
    options = make_parser().parse_args([command, *example.split()])
    assert options.command == command


@pytest.mark.parametrize("command", EXAMPLES)
def test_help_ends_with_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main([command, "--help"])
    assert capsys.readouterr().out.endswith(f"\n\n{epilog_of(command)}\n")


def test_help_is_a_command_too(capsys: pytest.CaptureFixture[str]) -> None:
    printed = []
    for given in (["help", "run"], ["run", "--help"]):
        with pytest.raises(SystemExit, match="0"):
            main(given)
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    assert printed[0].startswith("usage: tvm-nnef run ")
