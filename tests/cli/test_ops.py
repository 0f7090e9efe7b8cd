"""``tvm-nnef ops``, and the page of operators that is written from the same source."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tvm_nnef.cli import main
from tvm_nnef.lower.ops import MAPPINGS
from tvm_nnef.stdlib.catalogue import Entry, page, standard_entries
from tvm_nnef.stdlib.mapped_operators import MAPPED_OPERATORS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "operators.md"


@pytest.fixture(scope="module")
def entries() -> dict[str, Entry]:
    return {entry.qualified_name: entry for entry in standard_entries()}


def test_the_page_is_not_stale(entries: dict[str, Entry], request: pytest.FixtureRequest) -> None:
    """Where this fails: ``python scripts/write_operators.py``, or ``pytest --update-golden``."""
    text = page(entries.values())
    if request.config.getoption("--update-golden"):
        PAGE.write_text(text, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == text, "run: python scripts/write_operators.py"


def test_the_script_says_whether_the_page_is_stale(entries: dict[str, Entry]) -> None:
    script = [sys.executable, str(ROOT / "scripts" / "write_operators.py"), "--check"]
    stale = PAGE.read_text(encoding="utf-8") != page(entries.values())
    assert subprocess.run(script).returncode == int(stale)


def test_every_operator_is_on_the_page_with_a_comment(entries: dict[str, Entry]) -> None:
    text = page(entries.values())
    for name, entry in entries.items():
        assert (f"### {name}\n" in text) != entry.is_private
        assert entry.comment, f"{name} has no comment"


def test_what_maps_is_listed_as_mapped(entries: dict[str, Entry]) -> None:
    listed = {name for name, entry in entries.items() if entry.lowering.startswith("mapped")}
    assert listed == set(MAPPINGS) & set(entries)
    assert set(MAPPINGS) == MAPPED_OPERATORS


def test_what_has_no_body_is_listed_as_intrinsic(entries: dict[str, Entry]) -> None:
    listed = {name for name, entry in entries.items() if entry.lowering.endswith("intrinsic")}
    bodies = ("@lower", "@compose")
    bare = {n for n, entry in entries.items() if not any(word in entry.text for word in bodies)}
    assert listed == bare


@pytest.mark.parametrize(
    ("name", "lowering", "signature"),
    [
        ("math.sqrt", "mapped, formula", "(x: real[s..]) -> y: real[s..]"),
        (
            "nn.linear",
            "mapped, formula",
            "<T: num>(input: T[b, c], filter: T[n, c], bias: optional T[n]) -> output: T[b, n]",
        ),
        ("layout.shape", "mapped, formula", "<T: type>(input: T[s..(d)]) -> output: int[d]"),
        ("layer.linear", "composition", "{channels: int, use_bias: bool = true}(input: real[b, c])"
         " -> output: real[b, channels]"),
    ],
)  # fmt: skip
def test_signatures(entries: dict[str, Entry], name: str, lowering: str, signature: str) -> None:
    assert entries[name].lowering == lowering
    assert entries[name].signature == signature


def test_a_module_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", "linalg"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert "linalg.matmul" in names
    assert {name.partition(".")[0] for name in names} == {"linalg"}


def test_a_terminal_shows_long_signatures_below_themselves(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert main(["ops", "linalg"]) == 0
    whole = capsys.readouterr().out.splitlines()
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["ops", "linalg"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > len(whole) and max(map(len, lines)) <= 80
    assert " ".join(" ".join(lines).split()) == " ".join(" ".join(whole).split())


def test_the_importable_module_of_xla_is_listed_by_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["ops", "xla.dot"]) == 0
    assert capsys.readouterr().out.startswith("# xla.dot: formula\n# Sums of products")
    assert main(["ops", "xla"]) == 0
    assert "xla.reduce_window_max" in capsys.readouterr().out
    assert main(["ops"]) == 0
    assert "xla." not in capsys.readouterr().out


def test_an_operator_is_shown_with_its_comment_and_text(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["ops", "nn.linear"]) == 0
    head, comment, first, *_ = capsys.readouterr().out.splitlines()
    assert (head, comment, first) == (
        "# nn.linear: mapped, formula",
        "# input * filter^T + bias",
        "operator linear {",
    )


def test_a_name_that_two_modules_have_lists_both(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", "linear"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert names == ["layer.linear", "nn.linear"]


MODEL = """# A comment of the module.
import math;

# Twice x.
operator twice {
    @input { x: real[s..]; }
    @output { y: real[s..]; }
    @compose { y = math.add(x, x); }
}

graph G {
    @input { x: real[3]; }
    @output { y: real[3]; }
    @compose { y = twice(x); }
}
"""


def test_the_operators_of_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "main.sknd").write_text(MODEL)
    assert main(["ops", "--model", str(tmp_path)]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert [line.split() for line in listed] == [
        ["main.twice", "composition", "(x:", "real[s..])", "->", "y:", "real[s..]"]
    ]
    assert main(["ops", "--model", str(tmp_path), "twice"]) == 0
    assert capsys.readouterr().out.startswith("# main.twice: composition\n# Twice x.\noperator tw")
    assert main(["ops", "--model", str(tmp_path), "twise"]) == 1
    assert "did you mean 'twice'?" in capsys.readouterr().err
