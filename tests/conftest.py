"""What all tests share: golden files, rewritten by ``pytest --update-golden``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

GOLDENS = Path(__file__).parent / "goldens"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite the files of tests/goldens"
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with ``tests/goldens/<room>/<name>.txt``."""
    room = request.path.parent.name

    def check(name: str, text: str) -> None:
        path = GOLDENS / room / f"{name}.txt"
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
        hint = f"{path.name} is missing; write it with --update-golden"
        assert path.is_file(), hint
        assert text.rstrip("\n") + "\n" == path.read_text(encoding="utf-8")

    return check
