"""What the documents claim is true: commands, models, messages, links."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.cli import main
from tvm_nnef.cli.arguments import make_parser
from tvm_nnef.compilation.options import Compiling

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def listing(start: str) -> str:
    """The fenced listing of the README that starts with some text."""
    for text in re.findall(r"```\w*\n(.*?)```", README, re.DOTALL):
        if text.startswith(start):
            return str(text)
    raise AssertionError(f"no listing starts with {start!r}")


def test_the_model_of_the_readme_computes_what_it_says() -> None:
    generator = np.random.default_rng(0)
    x = generator.standard_normal((4, 8)).astype(np.float32)
    w = generator.standard_normal((8, 16)).astype(np.float32)
    h = x @ w
    (y,) = tvm_nnef.build(listing("import linalg"), progress=False)(x, w)
    np.testing.assert_allclose(y, h / (1 + np.exp(-1.5 * h)), rtol=1e-5, atol=1e-5)


def test_the_first_command_prints_what_the_readme_shows(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    command = re.findall(r"&& tvm-nnef (run .*)$", README, re.MULTILINE)[0]
    assert main(command.split()) == 0
    shown, printed = listing("probabilities").split(), capsys.readouterr().out.split()
    # The first class and its probability; the tiny ones after it may differ between CPUs.
    assert printed[:5] == shown[:5]
    assert abs(float(printed[5].rstrip("%")) - float(shown[5].rstrip("%"))) < 0.1


def test_the_error_of_the_readme_is_what_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (
        "import nn;\n\ngraph G {\n    @input { x: real[1,1,8,8]; }\n    @output { y: real; }\n"
        "    @variable { w: real[1,1,3,3]; }\n\n    @compose {\n"
        "        y = nn.cnov{padding=1}(x, w);\n    }\n}\n"
    )
    Path("main.sknd").write_text(text)
    assert main(["check", "main.sknd"]) == 1
    assert listing("main.sknd:9") in capsys.readouterr().err


def test_the_chart_shows_what_was_measured(imported: Callable[[Path], Any]) -> None:
    script = imported(ROOT / "scripts" / "write_speed_chart.py")
    data = json.loads((script.PICTURES / "speed.json").read_text(encoding="utf-8"))
    for name, colours in script.COLOURS.items():
        drawn = (script.PICTURES / f"speed-{name}.svg").read_text(encoding="utf-8")
        assert drawn == script.chart(data, colours)
    ratios = [f"{each:.2f}" for each in script.bars(data).values()]
    assert [each for each in ratios if each not in README] == []


def test_there_are_two_commands_to_copy() -> None:
    commands = re.findall(r"^    (pip install .* && .*)$", README, re.MULTILINE)
    assert len(commands) == 2
    assert "tvm-nnef run" in commands[0]
    assert "pytest" in commands[1]


COMMANDS = re.findall(r"^\| `tvm-nnef ([^`]*)` \|", README, re.MULTILINE)
SLOW = ("bench", "build", "compare", "run", "tune")


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(each, marks=pytest.mark.slow if each.startswith(SLOW) else ())
        for each in COMMANDS
    ],
)
def test_commands_run_as_they_are_shown(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    image = np.linspace(0, 1, 64, dtype=np.float32).reshape(1, 1, 8, 8)
    np.save("x.npy", image)
    Path("DIR").mkdir()
    np.save("DIR/first.npy", image)
    digits = str(ROOT / "docs" / "examples" / "digits")
    words = {"MODEL": digits, "[NAME]": "nn.conv", "500": "20"}
    if "model.onnx" in command:
        pytest.importorskip("onnx")
        tvm_nnef.convert(words["MODEL"], "model.onnx")
    assert main([words.get(word, word) for word in command.split()]) == 0


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", document.read_text(encoding="utf-8"))
    assert [t for t in targets if "://" not in t and not (document.parent / t).exists()] == []


def test_the_reference_has_every_public_name_and_every_command() -> None:
    api = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    names = re.findall(r"^::: tvm_nnef\.(\w+)$", api, re.MULTILINE)
    assert sorted([*names, "__version__"]) == sorted(tvm_nnef.__all__)
    commands = make_parser().commands
    cli = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^## (\w+)$", cli, re.MULTILINE)) == sorted(commands)
    assert sorted(re.findall(r"^<!-- options: (\w+) -->$", cli, re.MULTILINE)) == sorted(commands)


def test_links_of_the_readme_are_absolute_in_a_distribution(
    imported: Callable[[Path], Any],
) -> None:
    links = imported(ROOT / "scripts" / "source_links.py")
    given = '[a](docs/a.md#b) [c](#d) ![e](docs/e.png) [f](https://f.example) <img src="g.svg">'
    made = links.absolute(given)
    address = links.repository()
    assert made == (
        f"[a]({address}/blob/main/docs/a.md#b) [c](#d) ![e]({address}/raw/main/docs/e.png) "
        f'[f](https://f.example) <img src="{address}/raw/main/g.svg">'
    )


def test_the_architecture_names_every_pass_in_its_order() -> None:
    from tvm_nnef.compilation.passes import passes
    from tvm_nnef.compilation.target import resolve

    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| (bind|graph|fuse|schedule|bytecode|lower|code) \| ([^|]*) \|", text, re.MULTILINE
    )
    named = [(phase, name) for phase, cell in rows for name in re.findall("`([a-z_0-9]+)`", cell)]
    known = set()
    for target in ("native", "cuda", "vulkan"):
        graphs = target == "cuda"
        made = passes(resolve(target), Compiling(checked=True, cuda_graphs=graphs))
        listed = [(each.phase, each.name) for each in made]
        assert [each for each in named if each in listed] == listed
        known |= set(listed)
    assert {each for each in named if each[1] != "checked"} == known
